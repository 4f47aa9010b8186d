// Whether the system's limits let a program begin that is to use gRPC.
//
// gRPC, and threads of C++ in general, end the process where no thread or
// descriptor can be had; at the start that is tried before.
#ifndef ROLLCALL_DAEMON_BASE_START_LIMITS_H_
#define ROLLCALL_DAEMON_BASE_START_LIMITS_H_

#include <cstddef>

#include "absl/status/status.h"

namespace rollcall {

// About what an agent holds before it has started a rank; a daemon and a
// launcher hold less.
inline constexpr size_t kThreadsToStart = 20;
inline constexpr size_t kDescriptorsToStart = 24;

// Starts `threads` threads and opens that many descriptors, and lets go of them
// again. More threads than its own: for a process that starts others of this
// user, since a launcher whose children took the last ones would wait for ever.
// RESOURCE_EXHAUSTED: it could not; names the limit, its value and what is
// needed. The process has as many threads afterwards as before. Any thread.
absl::Status CheckStartLimits(size_t threads = kThreadsToStart);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_START_LIMITS_H_
