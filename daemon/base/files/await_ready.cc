#include "daemon/base/files/await_ready.h"

#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <cstdint>

#include "daemon/base/clock.h"

namespace rollcall {

bool AwaitReady(int fd, short events, absl::Time until) {
  while (true) {
    const int64_t left_ms =
        std::clamp<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(
                                until - MonotonicNow(), absl::Milliseconds(1))),
                            0, INT32_MAX);
    if (left_ms == 0) return false;
    pollfd polled{fd, events, 0};
    const int ready = poll(&polled, 1, static_cast<int>(left_ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace rollcall
