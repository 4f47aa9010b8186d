// RunCredentials: the id of the job's run, and which credentials of its nodes
// are valid.
//
// After an adoption, the job is in another run than before. Agents of the
// former run may still come with its credentials. Such a credential counts like
// the token for which it was given.
//
// A pure value; any thread.
#ifndef ROLLCALL_DAEMON_CORE_MEMBERSHIP_RUN_CREDENTIALS_H_
#define ROLLCALL_DAEMON_CORE_MEMBERSHIP_RUN_CREDENTIALS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/membership/node_epochs.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class RunCredentials {
 public:
  explicit RunCredentials(std::string run) : run_(std::move(run)) {}

  const std::string& run() const { return run_; }
  // Whether this is the id of the run, or of the one before adoption.
  bool IsRun(const std::string& run) const {
    return run == run_ || (!former_run_.empty() && run == former_run_);
  }
  NodeEpochs& epochs() { return epochs_; }
  const NodeEpochs& epochs() const { return epochs_; }
  // Requires IsRun(run).
  const NodeEpochs& EpochsOf(const std::string& run) const {
    return run == run_ ? epochs_ : former_epochs_;
  }

  // Makes the value of Welcome.node_credential for the agent that sent this
  // Hello; see JobKeys. Unset: agents get no credentials.
  using Make = std::function<std::string(
      const std::string& run, const v1::Hello& hello, uint64_t epoch)>;
  void UseKey(Make make) { make_ = std::move(make); }
  // The credential for this node's next Hello; empty without a key. Records it
  // in Node::credential if there is a key.
  std::string Issue(Node& node, absl::Time now) const;
  // Whether the node's latest credential is due for renewal.
  bool IsRenewalDue(const Node& node, absl::Time now,
                    const Limits& limits) const {
    return make_ &&
           now - node.credential.issued.at >= limits.credential_renewal;
  }
  // Whether the Hello shows one of the two latest credentials that this daemon
  // gave to the node, and its lifetime has not passed on the monotonic clock.
  // Such a credential is valid even if the wall clock was set past its expiry.
  static bool IsRecent(const v1::Hello& hello, const Node& node, absl::Time now,
                       const Limits& limits);

  // The run continues from its journal.
  void Restore(NodeEpochs epochs) { epochs_ = std::move(epochs); }
  // The job continues the run of this world. Requires that its world commit has
  // the epoch of each member; Claims checks it.
  void Adopt(const v1::World& world, const v1::WorldCommit& world_commit);
  // The agent of this Hello is admitted. `continues`: the same agent attended
  // before. If it is another agent and shows no credential of this run, earlier
  // credentials of the node become invalid.
  void Admit(const v1::Hello& hello, bool continues);
  // A person evicts the node: its credentials of both runs become invalid.
  void Evict(const std::string& node);

 private:
  std::string run_;
  NodeEpochs epochs_;
  // The run that this job had before an adoption; not journaled.
  std::string former_run_;
  NodeEpochs former_epochs_;
  Make make_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_RUN_CREDENTIALS_H_
