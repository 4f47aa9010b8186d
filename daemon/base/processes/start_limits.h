// Checks whether the system's limits let a program that uses gRPC start.
//
// gRPC, and C++ threads in general, end the process if no thread or descriptor
// is available. So this is checked at the start, with a clear error.
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_START_LIMITS_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_START_LIMITS_H_

#include <cstddef>

#include "absl/status/status.h"

namespace rollcall {

// The threads and descriptors that must be free at the start: about as many as
// an agent uses before it has started a rank. A daemon and a launcher use
// fewer.
inline constexpr size_t kThreadsToStart = 20;
inline constexpr size_t kDescriptorsToStart = 24;

// Starts `threads` threads and opens kDescriptorsToStart descriptors, and
// releases them all again. A process that starts other processes of this user
// passes more threads than it needs itself: if its children took the last ones,
// it would wait for ever. RESOURCE_EXHAUSTED: not all could be started or
// opened; the message names the limit, its value and what is needed. Any
// thread.
absl::Status CheckStartLimits(size_t threads = kThreadsToStart);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_START_LIMITS_H_
