// The live line of a launcher: several processes write to its terminal, and
// only the launcher knows the line at the bottom. So a process that writes
// there erases the line, writes whole lines in its place, and rings the bell:
// the launcher then draws the line again. A terminal takes one write as a
// whole, so none of this is torn apart.
//
// The bell is an eventfd that the processes inherit; -1: there is none.
//
// Any thread.
#ifndef ROLLCALL_DAEMON_BASE_LIVE_BELL_H_
#define ROLLCALL_DAEMON_BASE_LIVE_BELL_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

namespace rollcall {

// To the start of the line, and erase it.
inline constexpr char kEraseLine[] = "\r\033[K";

// Whether what is written to `fd` stands above a live line.
inline bool IsAboveLiveLine(int fd, int bell) {
  return bell >= 0 && isatty(fd) == 1;
}

// Never blocks.
inline void RingLiveBell(int bell) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(bell, &one, sizeof(one));
}

// Keeps the bell from the children of this process. Returns -1 if the
// descriptor is not open.
inline int OwnLiveBell(int bell) {
  return bell >= 0 && fcntl(bell, F_SETFD, FD_CLOEXEC) == 0 ? bell : -1;
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_LIVE_BELL_H_
