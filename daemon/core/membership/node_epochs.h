// NodeEpochs: the nodes that a run has admitted, the epoch of each node's
// credential, and the id of the token that admitted it.
//
// A node credential is valid in one epoch of its node. To evict a node is to
// raise its epoch: every credential that it was given before is refused from
// then on, by this daemon and by those that read its journal. It is raised as
// well when another agent of the node is let in by a token, so that the one
// that it replaces cannot come first after a restart of the daemon.
//
// Bounded by bytes (limits' node_epochs_bytes). When that is passed, the
// entries of all nodes that the job no longer has go together, and `floor`, the
// epoch of every name without an entry, rises above theirs: a node whose entry
// went needs a token to come back, and no old credential becomes valid again.
// (A bound on the names of a whole run would end a long run of short-lived
// nodes; forgetting entries without a floor would make an evicted node's
// credential valid again.)
//
// Pure. Journals nothing itself: TakeChanges says what the journal must learn.
#ifndef ROLLCALL_DAEMON_CORE_MEMBERSHIP_NODE_EPOCHS_H_
#define ROLLCALL_DAEMON_CORE_MEMBERSHIP_NODE_EPOCHS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rollcall/v1/journal.pb.h"

namespace rollcall {

class NodeEpochs {
 public:
  // Takes what TakeChanges or Whole gave, from a journal; names and numbers
  // that cannot be are left out. No change of its own.
  void Apply(const v1::NodeEpochs& journaled);

  // The epoch that this node's credential must have.
  uint64_t EpochOf(const std::string& node) const;
  // Whether the node was evicted or drained since it was given a credential of
  // this epoch. False if its entry was pruned: nobody knows.
  bool WasRaisedPast(const std::string& node, uint64_t epoch) const;
  // Empty: not known.
  std::string TokenOf(const std::string& node) const;
  // Whether the run has admitted a node of this name and remembers it.
  bool Has(const std::string& node) const { return entries_.contains(node); }
  // By name.
  std::vector<std::string> AdmittedBy(const std::string& token_id) const;
  // Of all nodes that were ever admitted.
  uint64_t highest() const { return highest_; }
  uint64_t floor() const { return floor_; }
  size_t bytes() const { return bytes_; }

  // The node was admitted. `token_id`: empty where it came by its credential,
  // which leaves the token as it was.
  void Admit(const std::string& node, const std::string& token_id);
  // The node's credentials are dead from now on; one that has no entry gets
  // one.
  void Raise(const std::string& node);
  // A node whose epoch another daemon has given.
  void Set(const std::string& node, uint64_t epoch,
           const std::string& token_id);
  // From now on the epoch of every name without an entry is at least this.
  void RaiseFloor(uint64_t floor);
  // Where the bound is passed: drops every entry for which `keep` is false.
  void MaybePrune(const std::function<bool(const std::string&)>& keep);

  // What has changed since it was last called.
  std::optional<v1::NodeEpochs> TakeChanges();
  // All of it.
  v1::NodeEpochs Whole() const;

 private:
  struct Entry {
    uint64_t epoch = 0;
    std::string token_id;
  };

  void Put(const std::string& node, Entry entry);

  std::map<std::string, Entry> entries_;
  uint64_t floor_ = 0;
  uint64_t highest_ = 0;
  size_t bytes_ = 0;
  // Of what was left when it was pruned last.
  size_t bytes_kept_ = 0;
  std::set<std::string> changed_;
  bool floor_changed_ = false;
  bool pruned_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_NODE_EPOCHS_H_
