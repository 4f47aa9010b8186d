// SetupWait: how long one gathering has waited for nodes that run their set-up
// command (--setup), and whether it still does.
//
// The time is bounded for all nodes of the gathering together: an agent with a
// valid token may use any number of names, and must not hold up a job for
// longer.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_SETUP_WAIT_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_SETUP_WAIT_H_

#include <algorithm>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

class SetupWait {
 public:
  // `some`: a node that attends runs its set-up command. Returns how long the
  // gathering has waited for such nodes since the last call.
  absl::Duration Note(bool some, absl::Time now, const Limits& limits) {
    absl::Duration waited;
    if (on_) waited = std::min(now - since_, limits.setup_wait() - used_);
    used_ += waited;
    since_ = now;
    on_ = some && used_ < limits.setup_wait();
    return waited;
  }

  // As of the last call of Note.
  bool on() const { return on_; }
  // When the gathering waits no longer; InfinitePast: it does not wait.
  absl::Time until(const Limits& limits) const {
    return on_ ? since_ + (limits.setup_wait() - used_) : absl::InfinitePast();
  }

 private:
  bool on_ = false;
  absl::Time since_ = absl::InfinitePast();
  absl::Duration used_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_SETUP_WAIT_H_
