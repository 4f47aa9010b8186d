// ForkedRank: a rank's process, made but held back before its command.
//
// Made in two steps, so that the guard can learn of a process before it can do
// anything: ForkRank makes it, with its session, cgroup, pipes, signals and
// descriptors in place; Release lets it execute its command. One that is never
// released, or whose maker dies, ends without having run anything.
//
// Safe in a process with many threads: between fork and exec the child makes
// plain system calls only, on memory that was prepared before.
//
// Thread rule: one thread at a time, and the thread that forks must outlive the
// rank: its end kills the rank (PR_SET_PDEATHSIG), which is a second rope
// beside the guard.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_FORK_EXEC_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_FORK_EXEC_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

namespace rollcall {

struct ForkedRank {
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  // Non-blocking read ends.
  Fd out;
  Fd err;
  // A byte here lets it go; closing it ends it.
  Fd gate;
  // Holds an errno (int) after the process has ended, if it could not execute.
  Fd failure;
};

// Makes a process that leads its own session, reads /dev/null, has default
// signals and no descriptor but 0 to 2. `environment` is all it gets; `argv[0]`
// without a slash is looked up in that environment's PATH. `cgroup_entrance`:
// see RankCgroup; -1: none. RESOURCE_EXHAUSTED: no process or pipe could be
// made. INVALID_ARGUMENT: argv is empty.
absl::StatusOr<ForkedRank> ForkRank(const std::vector<std::string>& argv,
                                    const std::vector<std::string>& environment,
                                    int cgroup_entrance);

// What a rank ends with that its node could not start for want of something
// (descriptors, processes, memory, disk space): sysexits' EX_OSERR. Unlike 126
// and 127 it may well start elsewhere, or later.
inline constexpr int kNodeCannotStart = 71;

// Lets it execute its command.
void Release(ForkedRank& rank);

// Why it could not execute, once it has ended: an errno, 0 where it could.
int ExecError(const ForkedRank& rank);

// The same in words, and the code that a shell would end with: 127 (not found)
// or 126; or kNodeCannotStart.
struct ExecFailure {
  int code;
  std::string reason;
};
ExecFailure ExplainExecError(int error, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_FORK_EXEC_H_
