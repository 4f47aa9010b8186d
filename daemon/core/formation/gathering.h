// Gathering: how long the job waits for nodes before it forms a world.
//
// With too few nodes, the job waits until the join timeout. With enough nodes,
// it waits until the last call ends, and then, if a fence holds, until the
// fence opens. While a fence holds, the join timeout does not run. It does not
// run either while a node that attends runs its set-up command (SetupWait).
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_GATHERING_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_GATHERING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "daemon/core/formation/arrivals.h"
#include "daemon/core/formation/fence.h"
#include "daemon/core/formation/setup_wait.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// How long a job has had no node. A daemon has a limited number of jobs
// (Limits::jobs_per_daemon_max), so a job that no node attends may end (see
// Allow). An agent that has lost its stream gets as long to come back as after
// a restart of the daemon.
class Unattended {
 public:
  explicit Unattended(absl::Time now) : since_(now) {}

  // From now on, the job ends if it stays unattended. Otherwise Due is
  // InfiniteFuture.
  void Allow() { ends_ = true; }
  // `attended`: a node attends or may come back soon.
  void Note(bool attended, absl::Time now) {
    if (attended) {
      since_ = absl::InfiniteFuture();
    } else if (since_ == absl::InfiniteFuture()) {
      since_ = now;
    }
  }
  // When the job ends.
  absl::Time Due(const Limits& limits) const {
    return ends_ ? since_ + limits.reattach_grace : absl::InfiniteFuture();
  }

 private:
  bool ends_ = false;
  absl::Time since_;
};

class Gathering {
 public:
  Gathering(absl::Time now, const Limits& limits)
      : since_(now),
        join_until_(now + limits.join_timeout),
        last_call_(now),
        unattended_(now) {}

  // `at_once`: a world has just ended, so the next one does not wait for a last
  // call.
  void Begin(bool at_once, absl::Time now, const Limits& limits);

  // A node attends; `previous`: when the same name attended before;
  // InfinitePast: never.
  void Arrived(absl::Time previous, absl::Time now, const Limits& limits) {
    last_call_.Arrived(previous, now, limits);
  }
  // The last call begins again now.
  void CallAgain(absl::Time now) { last_call_ = LastCall(now); }
  // The daemon was isolated, so the time until now does not count.
  void BeginAgain(absl::Time now, const Limits& limits);

  // Call it before Judge. `some`: a node that attends runs its set-up command.
  void NoteSetups(bool some, absl::Time now, const Limits& limits) {
    join_until_ += setups_.Note(some, now, limits);
  }

  enum class Verdict {
    // Wait: more nodes may come or be set up, or the answer of FenceAsked is
    // still valid.
    kWait,
    kTimedOut,  // Too few nodes attended in time.
    kForm,      // Ask the fence; if it is open, form a world.
  };
  // `present`: nodes that may have a seat. `revision`: see FenceAsked.
  Verdict Judge(size_t present, const v1::JobSettings& settings,
                uint64_t revision, absl::Time now, const Limits& limits);
  // Nodes are told to come back at this time, so the join timeout begins then.
  void NodesComeAt(absl::Time when, const Limits& limits) {
    join_until_ = std::max(join_until_, when + limits.join_timeout);
  }
  // A world was proposed.
  void Formed() { at_once_ = false; }

  // The fence holds until `opens`. Returns whether that is new.
  bool FenceHolds(absl::Time opens);
  // The answer that the fence holds is valid until `until`, unless the job's
  // revision changes before. So the fence is not computed again at every
  // heartbeat.
  void FenceAsked(absl::Time until, uint64_t revision);
  // No fence holds. Enough nodes were present during the wait, so the join
  // timeout begins now.
  void FenceOpened(absl::Time now, const Limits& limits);
  // How long the fence still holds at most; zero: it does not hold. The answer
  // of FenceHolds is used only while fence() is not open.
  absl::Duration FenceLeft(absl::Time now) const;

  // Until when the next world waits for nodes with a seat whose streams broke:
  // as long as any of them may take to come back, but not again for one that
  // comes and goes.
  absl::Time SuspectsUntil(const Limits& limits) const {
    return since_ + std::max({limits.arrivals_wait_max, limits.reconnect_grace,
                              limits.reattach_grace, limits.lease});
  }
  // When to call Judge again if nothing changes before. `enough`: at least
  // nodes_min nodes may have a seat.
  absl::Time Due(bool enough, absl::Time now, const Limits& limits) const;
  absl::Time since() const { return since_; }
  // The fence of the last committed world, after that world's end.
  Fence& fence() { return fence_; }
  const Fence& fence() const { return fence_; }
  Unattended& unattended() { return unattended_; }
  const Unattended& unattended() const { return unattended_; }
  // Whether arrivals were ignored because enough nodes had waited too long.
  bool overdue() const { return last_call_.overdue(); }

 private:
  absl::Time since_;
  absl::Time join_until_;
  LastCall last_call_;
  SetupWait setups_;
  Fence fence_;
  Unattended unattended_;
  bool at_once_ = false;
  // InfinitePast: no fence holds.
  absl::Time fenced_until_ = absl::InfinitePast();
  absl::Time fence_asked_until_ = absl::InfinitePast();
  uint64_t fence_asked_at_revision_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_GATHERING_H_
