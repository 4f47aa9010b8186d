// The live line is the bottom line of a launcher's terminal. Several processes
// write to that terminal, and only the launcher knows the live line. So another
// process erases the line, writes whole lines in its place and rings the bell;
// then the launcher draws the line again. A terminal takes one write as a
// whole, so these writes are not mixed.
//
// The bell is an eventfd that the processes inherit; -1: there is no bell.
//
// Any thread.
#ifndef ROLLCALL_DAEMON_BASE_LIVE_BELL_H_
#define ROLLCALL_DAEMON_BASE_LIVE_BELL_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

namespace rollcall {

// Moves to the start of the line and erases it.
inline constexpr char kEraseLine[] = "\r\033[K";

// Whether output to `fd` appears above a live line.
inline bool IsAboveLiveLine(int fd, int bell) {
  return bell >= 0 && isatty(fd) == 1;
}

// Never blocks.
inline void RingLiveBell(int bell) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(bell, &one, sizeof(one));
}

// Keeps children of this process from inheriting the bell. Returns -1 if the
// descriptor is not open.
inline int OwnLiveBell(int bell) {
  return bell >= 0 && fcntl(bell, F_SETFD, FD_CLOEXEC) == 0 ? bell : -1;
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_LIVE_BELL_H_
