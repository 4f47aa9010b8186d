// NodeEpochs: the nodes that a run has admitted, the epoch of each node's
// credential, and the id of the token that admitted it.
//
// A node credential is valid in one epoch of its node. Evicting a node raises
// its epoch: from then on, this daemon and those that read its journal refuse
// every credential that the node was given before. The epoch is also raised
// when a token admits another agent of the node, so that the replaced agent
// cannot be the first to come back after a restart of the daemon.
//
// Bounded by bytes (Limits::node_epochs_bytes). Beyond the bound, the entries
// of all nodes that the job no longer has are removed together, and `floor`,
// the epoch of every name without an entry, rises above their epochs. So a node
// whose entry was removed needs a token to come back, and no old credential
// becomes valid again. (A bound on the number of names would end a long run of
// short-lived nodes; removing entries without a floor would make an evicted
// node's credential valid again.)
//
// Pure. It journals nothing itself: TakeChanges returns what to journal.
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
  // Applies a journaled result of TakeChanges or Whole; invalid names and
  // numbers are ignored. Does not count as a change.
  void Apply(const v1::NodeEpochs& journaled);

  // The epoch that this node's credential must have.
  uint64_t EpochOf(const std::string& node) const;
  // Whether the node was evicted or drained after it was given a credential of
  // this epoch. False if its entry was pruned, because then that is not known.
  bool WasRaisedPast(const std::string& node, uint64_t epoch) const;
  // The id of the token that admitted the node; empty: unknown.
  std::string TokenOf(const std::string& node) const;
  // Whether the run has admitted a node of this name and remembers it.
  bool Has(const std::string& node) const { return entries_.contains(node); }
  // Names of the nodes that this token admitted, sorted.
  std::vector<std::string> AdmittedBy(const std::string& token_id) const;
  // The highest epoch of all nodes that were ever admitted.
  uint64_t highest() const { return highest_; }
  uint64_t floor() const { return floor_; }
  size_t bytes() const { return bytes_; }

  // The node was admitted. `token_id`: empty if the node came with its
  // credential; then its entry keeps the earlier token id.
  void Admit(const std::string& node, const std::string& token_id);
  // Makes the node's present credentials invalid. Adds an entry if there is
  // none.
  void Raise(const std::string& node);
  // Sets the epoch that another daemon has given to this node.
  void Set(const std::string& node, uint64_t epoch,
           const std::string& token_id);
  // From now on the epoch of every name without an entry is at least this.
  void RaiseFloor(uint64_t floor);
  // If the bound is exceeded, removes every entry for which `keep` is false.
  void MaybePrune(const std::function<bool(const std::string&)>& keep);

  // Returns the changes since the last call; nullopt: none.
  std::optional<v1::NodeEpochs> TakeChanges();
  // All entries.
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
  // Bytes that the last pruning left.
  size_t bytes_kept_ = 0;
  std::set<std::string> changed_;
  bool floor_changed_ = false;
  bool pruned_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_NODE_EPOCHS_H_
