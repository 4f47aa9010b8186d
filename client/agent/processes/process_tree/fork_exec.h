// ForkedRank: a rank's process that is forked but does not run its command yet.
//
// It is made in two steps, so that the guard knows the process before the
// process can do anything. ForkRank makes it, with its session, cgroup, pipes,
// signals and descriptors; Release lets it execute its command. A process that
// is never released, or whose parent dies first, ends without running anything.
//
// Safe in a process with many threads: between fork and exec the child only
// makes system calls, with memory that was prepared before the fork.
//
// Thread rule: one thread at a time. The thread that forks must outlive the
// rank, because the rank is killed when that thread ends (PR_SET_PDEATHSIG, a
// second protection besides the guard).
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_FORK_EXEC_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_FORK_EXEC_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {

struct ForkedRank {
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  // Non-blocking read ends.
  Fd out;
  Fd err;
  // Writing a byte releases the process; closing the gate ends the process.
  Fd gate;
  // After the process has ended: contains an errno (int) if it could not
  // execute.
  Fd failure;
};

// Makes a process that leads its own session, reads /dev/null, and has default
// signal handlers and no descriptors except 0 to 2. `environment`: its whole
// environment. `argv[0]`: looked up in its PATH if it has no slash.
// `cgroup_entrance`: see RankCgroup; -1: none. `user`: the process becomes that
// user, with no_new_privs; null: it stays this process's user.
// RESOURCE_EXHAUSTED: no process or pipe could be made. INVALID_ARGUMENT: argv
// is empty.
absl::StatusOr<ForkedRank> ForkRank(const std::vector<std::string>& argv,
                                    const std::vector<std::string>& environment,
                                    int cgroup_entrance,
                                    const SystemUser* user = nullptr);

// The exit code of a rank that could not start because its node lacks something
// (descriptors, processes, memory, disk space): sysexits' EX_OSERR. Unlike
// after 126 and 127, a start on another node or later may succeed.
inline constexpr int kNodeCannotStart = 71;

// Lets the process execute its command.
void Release(ForkedRank& rank);

// After the process has ended: the errno with which it could not execute; 0: it
// could. kNotTheUser is added if it could not become its user.
int ExecError(const ForkedRank& rank);
inline constexpr int kNotTheUser = 1 << 16;

// The error as text, and the exit code that a shell would use: 127 (not found)
// or 126; or kNodeCannotStart.
struct ExecFailure {
  int code;
  std::string reason;
};
ExecFailure ExplainExecError(int error, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const SystemUser* user = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_FORK_EXEC_H_
