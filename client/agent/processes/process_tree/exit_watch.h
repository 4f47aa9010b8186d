// ExitWatch: a descriptor that becomes readable when one child has ended. It
// does not reap the child.
//
// Uses a pidfd if the kernel has them, else a thread that waits. Both wait only
// for one child, by its pid, so other children of the process are not affected.
//
// Thread rule: one thread at a time. The child must not be reaped while its
// watch exists.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_EXIT_WATCH_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_EXIT_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "daemon/base/files/fd.h"

namespace rollcall {

// How a child ended: at most one of the two is not 0.
struct ExitStatus {
  int code = 0;
  int signal = 0;
};

class ExitWatch {
 public:
  enum class Means { kPidfd, kThread };

  // kPidfd falls back to kThread if the kernel has no pidfds.
  explicit ExitWatch(pid_t pid, Means means = Means::kPidfd);
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

  // Level-triggered; -1: no descriptor was available, so the end will not be
  // reported.
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

// How child `pid` ended; does not reap it. Blocks until it has ended.
ExitStatus PeekExit(pid_t pid);

// The same without blocking. nullopt: the child runs, or it has ended and a
// tracer (strace, gdb) still holds it; until the tracer lets go, no other
// process can wait for it.
std::optional<ExitStatus> TryPeekExit(pid_t pid);

// The most memory that the ended child, or one of its descendants that were
// waited for, had in RAM at a time; does not reap it. 0: unknown.
uint64_t PeakBytesOf(pid_t pid);

// The process that traces `pid`; 0: none, or unknown.
pid_t TracerOf(pid_t pid);

// Reaps the child if it has ended; never blocks.
void Reap(pid_t pid);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_EXIT_WATCH_H_
