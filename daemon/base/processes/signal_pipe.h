// SignalPipe: makes signals readable from a pipe, one byte for each.
//
// It uses handlers and not a blocked signal mask, because exec resets handlers
// to the default, so children inherit nothing. SIGPIPE and SIGXFSZ get an empty
// handler for the same reason: writes to a closed pipe and beyond `ulimit -f`
// fail with EPIPE and EFBIG and do not end the process.
//
// Thread rule: a process has at most one SignalPipe; call Read from one thread.
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_SIGNAL_PIPE_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_SIGNAL_PIPE_H_

#include <signal.h>

#include <utility>
#include <vector>

namespace rollcall {

class SignalPipe {
 public:
  explicit SignalPipe(const std::vector<int>& signals);
  // Restores the earlier handlers.
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  // Readable when a signal has arrived.
  int fd() const { return read_fd_; }
  // The next signal; 0: there is none. Never blocks.
  int Read();

 private:
  void Install(int signal, void (*handler)(int));

  int read_fd_ = -1;
  int write_fd_ = -1;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_SIGNAL_PIPE_H_
