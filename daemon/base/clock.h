// The one monotonic clock of the shells.
#ifndef ROLLCALL_DAEMON_BASE_CLOCK_H_
#define ROLLCALL_DAEMON_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace rollcall {

// Never goes backwards, and says nothing about the date: its zero is some
// moment of this machine's boot. What the cores get as `now`.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_CLOCK_H_
