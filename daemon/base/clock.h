// The one monotonic clock of the shells.
#ifndef ROLLCALL_DAEMON_BASE_CLOCK_H_
#define ROLLCALL_DAEMON_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"

namespace rollcall {

// The time that the cores get as `now`. It never goes backwards. It is not a
// date: its zero is some moment of this machine's boot.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_CLOCK_H_
