// Poller: epoll, with a number for each descriptor.
//
// Thread rule: one thread.
#ifndef ROLLCALL_DAEMON_BASE_POLLER_H_
#define ROLLCALL_DAEMON_BASE_POLLER_H_

#include <sys/epoll.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/fd.h"

namespace rollcall {

class Poller {
 public:
  Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  // Level-triggered reading. False: the kernel takes no more.
  bool Add(int fd, uint64_t token) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = token;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  // Before the descriptor is closed: a copy in a child that is about to execute
  // would keep it here.
  void Remove(int fd) {
    if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }

  // The tokens of what is readable; none after `timeout` or an interruption.
  std::vector<uint64_t> Wait(absl::Duration timeout) {
    epoll_event events[64];
    const int ms = static_cast<int>(absl::ToInt64Milliseconds(
        absl::Ceil(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(1)),
                   absl::Milliseconds(1))));
    const int count = epoll_wait(epoll_.get(), events, 64, ms);
    std::vector<uint64_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(events[i].data.u64);
    return tokens;
  }

 private:
  Fd epoll_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_POLLER_H_
