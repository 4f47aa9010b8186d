// Completion: which ranks and members of the running world have ended.
//
// The job ends when all ranks that were started have exited 0. Nodes whose
// ranks have all exited 0 are journaled, so that a restarted daemon does not
// wait for them.
//
// It only counts; Node::done has the ranks of each member that exited 0.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_COMPLETION_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_COMPLETION_H_

#include <cstddef>
#include <cstdint>
#include <set>

#include "absl/time/time.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/journal.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Completion {
 public:
  Completion() = default;
  // This world begins to run. Sets Node::started of its members, all of which
  // must be in `membership`. `taken_up`: a former daemon committed the world,
  // so its ranks may wait for a notice that this daemon does not know.
  Completion(const v1::World& world, bool taken_up, absl::Time now,
             Membership& membership);

  // A rank of this member has exited 0. Requires that Node::over was false for
  // the rank. Returns whether it was the member's last rank.
  bool RankEnded(Node& node, uint32_t local_rank);
  // The journal has a record that these members' ranks have all exited 0.
  void TakeUp(const v1::FinishedNodes& finished, const v1::World& world,
              Membership& membership);
  // Whether all started ranks of all members have exited 0.
  bool all() const { return unfinished_ == 0; }
  // Whether some members have no rank to wait for.
  bool some(const v1::World& world) const {
    return unfinished_ < static_cast<size_t>(world.members_size());
  }
  // Whether a rank of a member has exited 0, or all ranks of a node that has
  // left since. From then on newcomers stay spares, because finished work is
  // not repeated for them.
  bool HasBegun(const Membership& membership) const;
  // Ranks that have exited 0 or are not started.
  size_t ranks_over() const { return ranks_over_; }

  // All ranks of this member have exited 0, and the job goes on. So the record
  // must be journaled, after a short time because many nodes finish at once.
  void Finished(const Node& node, absl::Time now);
  // When to journal the record; InfiniteFuture: the journal has it.
  absl::Time record_due() const { return record_due_; }
  // The record of all of finished(). After this call it is not due any more.
  v1::FinishedNodes TakeRecord();
  // The world has ended, so nothing is journaled any more.
  void DropRecord() { record_due_ = absl::InfiniteFuture(); }
  // Node ranks of the members whose ranks have all exited 0, including members
  // that have left since.
  const std::set<uint32_t>& finished() const { return finished_; }

  // When the world began to run. If the world was taken up: when this daemon
  // took it up. InfiniteFuture: no world has run.
  absl::Time running_since() const { return running_since_; }
  bool taken_up() const { return taken_up_; }

 private:
  size_t ranks_over_ = 0;
  size_t unfinished_ = 0;
  std::set<uint32_t> finished_;
  absl::Time record_due_ = absl::InfiniteFuture();
  absl::Time running_since_ = absl::InfiniteFuture();
  bool taken_up_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_COMPLETION_H_
