// AwaitReady: waits for a file descriptor, with a limit that signals do not
// extend. Any thread.
#ifndef ROLLCALL_DAEMON_BASE_FILES_AWAIT_READY_H_
#define ROLLCALL_DAEMON_BASE_FILES_AWAIT_READY_H_

#include "absl/time/time.h"

namespace rollcall {

// Waits until one of `events` (POLLIN, POLLOUT) or an error is there for `fd`.
// Returns false if there is none at `until` (MonotonicNow), at once if that has
// passed. A negative `fd` is never ready.
bool AwaitReady(int fd, short events, absl::Time until);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FILES_AWAIT_READY_H_
