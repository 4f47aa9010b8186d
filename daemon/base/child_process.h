// ChildProcess: a child that writes an answer to its stdout and is not trusted
// to give one, nor to end.
//
// It starts the child, reads with a deadline, kills and reaps. It does not know
// what the answer means. A child that does not die of SIGKILL (it waits in the
// kernel for a device) is left to init after a second: no call here blocks
// longer than its deadline and that second.
//
// Thread rule: one thread at a time. Fork is for a process with one thread.
#ifndef ROLLCALL_DAEMON_BASE_CHILD_PROCESS_H_
#define ROLLCALL_DAEMON_BASE_CHILD_PROCESS_H_

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
  // Executes `path`. The child has default signals, a process group of its own
  // (Ctrl-C on a terminal reaches the parent alone), stderr as the parent's,
  // and a stdin that ends with the parent, however that ends.
  // RESOURCE_EXHAUSTED: no process or pipe could be made. FAILED_PRECONDITION:
  // `path` cannot be executed.
  static absl::StatusOr<ChildProcess> Spawn(
      const std::string& path, const std::vector<std::string>& argv,
      const std::vector<std::string>& environment);

  // Runs `run` in a copy of this process, with the descriptor that its answer
  // goes to; the child ends with code 0 when `run` returns, and is killed when
  // the parent's thread ends. RESOURCE_EXHAUSTED: as above.
  static absl::StatusOr<ChildProcess> Fork(
      const std::function<void(int out_fd)>& run);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills and reaps.
  ~ChildProcess();

  // Appends what the child writes to `answer`: until `is_whole` says so, or,
  // where it is empty, to the end of the stream. `cancel_fd`: ends the wait
  // when it becomes readable; -1: none.
  // DEADLINE_EXCEEDED, CANCELLED: as named. RESOURCE_EXHAUSTED: more than
  // `bytes_max`. ABORTED: the stream ended before the answer was whole.
  absl::Status Read(absl::Duration timeout, size_t bytes_max,
                    const std::function<bool(const std::string&)>& is_whole,
                    int cancel_fd, std::string& answer);

  struct Ending {
    // False: SIGKILL did not end it within a second. It is left alone.
    bool reaped = false;
    // As exit codes and signals are; 0 where not reaped.
    int code = 0;
    int signal = 0;
    // "with code 3", "by signal 11", "not even by SIGKILL within 1s".
    std::string Text() const;
  };
  // Waits `grace` for the child to end by itself, then kills it, and reaps it.
  // Once.
  Ending End(absl::Duration grace = absl::ZeroDuration());

  pid_t pid() const { return pid_; }
  // Its stdout, to read from.
  int out_fd() const { return out_fd_; }

 private:
  ChildProcess(pid_t pid, int in_fd, int out_fd, bool leads_group)
      : pid_(pid), in_fd_(in_fd), out_fd_(out_fd), leads_group_(leads_group) {}

  // Whether it has ended within `patience`.
  bool AwaitEnd(absl::Duration patience) const;

  pid_t pid_;  // -1: reaped, or given up.
  int in_fd_;  // -1: none.
  int out_fd_;
  bool leads_group_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_CHILD_PROCESS_H_
