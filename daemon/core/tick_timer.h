// TickTimer: when a job's next Tick is due. Pure. One thread.
//
// The loop sets the job's deadline again each time before it waits.
#ifndef ROLLCALL_DAEMON_CORE_TICK_TIMER_H_
#define ROLLCALL_DAEMON_CORE_TICK_TIMER_H_

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace rollcall {

class TickTimer {
 public:
  // The longest wait for a Tick whose deadline has passed. Such a Tick is not
  // due at once: the one before may have left the deadline where it was, and
  // the loop would spin.
  static constexpr absl::Duration kPause = absl::Milliseconds(10);

  // Sets the job's next deadline, the earliest of all that it has. If it has
  // passed, a Tick that is due, or will be within kPause, stays so: messages in
  // quick succession must not put it off. If it lies ahead, a message has done
  // what the Tick was for.
  void Set(absl::Time deadline, absl::Time now) {
    due_ = deadline > now ? deadline : std::min(due_, now + kPause);
  }
  // InfiniteFuture: never.
  absl::Time due() const { return due_; }
  // If the Tick is due, returns by how much it is late, and clears it.
  std::optional<absl::Duration> Take(absl::Time now) {
    if (due_ > now) return std::nullopt;
    return now - std::exchange(due_, absl::InfiniteFuture());
  }

 private:
  absl::Time due_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_TICK_TIMER_H_
