// ChildProcess: a child process that writes an answer to its stdout. It may
// hang, crash or answer nothing.
//
// This class starts the child, reads with a deadline, kills and reaps. It does
// not parse the answer. If SIGKILL does not end the child within one second (it
// waits in the kernel for a device), the child is left to init, so that no call
// here blocks longer than its deadline plus that second.
//
// Thread rule: one thread at a time. Fork needs a process with one thread.
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_CHILD_PROCESS_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_CHILD_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rollcall {

class ChildProcess {
 public:
  // Executes `path`. The child has default signals, its own process group
  // (Ctrl-C on a terminal reaches only the parent), the parent's stderr, and a
  // stdin that closes when the parent ends, even by SIGKILL.
  // RESOURCE_EXHAUSTED: no process or pipe could be made. FAILED_PRECONDITION:
  // `path` cannot be executed.
  static absl::StatusOr<ChildProcess> Spawn(
      const std::string& path, const std::vector<std::string>& argv,
      const std::vector<std::string>& environment);

  // Runs `run` in a copy of this process; `run` writes its answer to `out_fd`.
  // The child exits with code 0 when `run` returns, and is killed when the
  // parent's thread ends. RESOURCE_EXHAUSTED: as above.
  static absl::StatusOr<ChildProcess> Fork(
      const std::function<void(int out_fd)>& run);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills and reaps.
  ~ChildProcess();

  // Appends the child's output to `answer` until `is_whole` returns true; if
  // `is_whole` is empty, until the end of the stream.
  // DEADLINE_EXCEEDED: `timeout` is over. CANCELLED: `cancel_fd` (-1: none)
  // became readable. RESOURCE_EXHAUSTED: more than `bytes_max`. ABORTED: the
  // stream ended before the answer was whole.
  absl::Status Read(absl::Duration timeout, size_t bytes_max,
                    const std::function<bool(const std::string&)>& is_whole,
                    int cancel_fd, std::string& answer);

  struct Ending {
    // False: SIGKILL did not end the child within a second; the child is left
    // to init.
    bool reaped = false;
    // Exit code and signal number; 0 if not reaped.
    int code = 0;
    int signal = 0;
    // "with code 3", "by signal 11", "not even by SIGKILL within 1s".
    std::string Text() const;
  };
  // Waits at most `grace` for the child to end by itself, then kills it. Reaps
  // it. Only the first call has an effect.
  Ending End(absl::Duration grace = absl::ZeroDuration());

  pid_t pid() const { return pid_; }
  // The read end of the child's stdout.
  int out_fd() const { return out_fd_; }

 private:
  ChildProcess(pid_t pid, int in_fd, int out_fd, bool leads_group)
      : pid_(pid), in_fd_(in_fd), out_fd_(out_fd), leads_group_(leads_group) {}

  // Whether the child ends within `patience`.
  bool AwaitEnd(absl::Duration patience) const;

  pid_t pid_;  // -1: reaped, or given up.
  int in_fd_;  // -1: none.
  int out_fd_;
  bool leads_group_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_CHILD_PROCESS_H_
