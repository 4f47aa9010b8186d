// Formation: the world of the current generation, from its proposal to its
// commit.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_FORMATION_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_FORMATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/membership/node_epochs.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Formation {
 public:
  // Proposes this world. All of its members have to prepare.
  void Propose(v1::World world, absl::Time now, const Limits& limits);
  // Takes up a world that a former daemon has committed. No member has to
  // prepare.
  void TakeUp(v1::World world, v1::Proposal proposal,
              v1::WorldCommit world_commit);

  // This member has prepared; it had not prepared before.
  void Prepared(const Node& node, const v1::Prepared& prepared);
  bool all_prepared() const { return unprepared_ == 0; }
  // Whether no member has prepared yet.
  bool fresh() const {
    return unprepared_ == static_cast<size_t>(world_.members_size());
  }
  // Until when the daemon waits for members that have not prepared;
  // InfiniteFuture: all have.
  absl::Time deadline() const {
    return all_prepared() ? absl::InfiniteFuture() : deadline_;
  }
  // Gives all members the whole prepare_timeout again.
  void Extend(absl::Time now, const Limits& limits) {
    deadline_ = now + limits.prepare_timeout;
  }

  // Commits the world with what node rank 0 has prepared. Requires that all
  // members are in `membership`.
  const v1::WorldCommit& Commit(const Membership& membership,
                                const NodeEpochs& epochs,
                                std::optional<v1::StateSource> source);

  // Makes the value of Commit.proof; see JobKeys. Unset: commits have no proof.
  using Prove = std::function<std::string(
      const std::string& run, uint64_t generation,
      const std::string& world_bytes, const std::string& world_commit_bytes)>;
  void UseKey(Prove prove) { prove_ = std::move(prove); }
  // The message that members are sent. Requires that the world is committed.
  v1::DaemonMessage CommitMessage() const;

  // The world of the current generation; after its end it stays until the next
  // proposal.
  const v1::World& world() const { return world_; }
  const v1::Proposal& proposal() const { return proposal_; }
  // nullopt: not committed.
  const std::optional<v1::WorldCommit>& world_commit() const {
    return world_commit_;
  }

 private:
  v1::World world_;
  v1::Proposal proposal_;
  v1::Prepared first_prepared_;  // The Prepared of node rank 0.
  std::optional<v1::WorldCommit> world_commit_;
  size_t unprepared_ = 0;
  absl::Time deadline_ = absl::InfiniteFuture();
  Prove prove_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_FORMATION_H_
