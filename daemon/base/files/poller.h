// Poller: an epoll set in which each descriptor has a number, its token.
//
// Thread rule: one thread.
#ifndef ROLLCALL_DAEMON_BASE_FILES_POLLER_H_
#define ROLLCALL_DAEMON_BASE_FILES_POLLER_H_

#include <sys/epoll.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

class Poller {
 public:
  Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  // Level-triggered, for reading. False: the kernel accepts no more
  // descriptors.
  bool Add(int fd, uint64_t token) {
    return Control(EPOLL_CTL_ADD, fd, token, EPOLLIN);
  }

  // From now on the token is reported when the descriptor is readable (`reads`)
  // or writable (`writes`), and when its other side has closed.
  bool Change(int fd, uint64_t token, bool reads, bool writes) {
    return Control(EPOLL_CTL_MOD, fd, token,
                   (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u));
  }

  // Call it before the descriptor is closed. Otherwise a copy of the descriptor
  // in a child that has not called exec yet keeps it in the set.
  void Remove(int fd) {
    if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }

  // The tokens of what is ready; none after `timeout` or an interruption.
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
  bool Control(int operation, int fd, uint64_t token, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = token;
    return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }

  Fd epoll_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FILES_POLLER_H_
