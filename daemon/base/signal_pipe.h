// SignalPipe: signals as bytes that can be read from a pipe.
//
// By handlers and not by a blocked mask: handlers fall back to the default at
// exec, so that no child inherits anything. SIGPIPE and SIGXFSZ get an empty
// handler for the same reason: writes to a closed pipe and beyond `ulimit -f`
// fail with EPIPE and EFBIG and do not end the process.
//
// Thread rule: at most one lives in a process; Read from one thread.
#ifndef ROLLCALL_DAEMON_BASE_SIGNAL_PIPE_H_
#define ROLLCALL_DAEMON_BASE_SIGNAL_PIPE_H_

#include <signal.h>

#include <utility>
#include <vector>

namespace rollcall {

class SignalPipe {
 public:
  explicit SignalPipe(const std::vector<int>& signals);
  // Puts the earlier handlers back.
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  // Readable when a signal has come.
  int fd() const { return read_fd_; }
  // The next signal; 0: none waits. Never blocks.
  int Read();

 private:
  void Install(int signal, void (*handler)(int));

  int read_fd_ = -1;
  int write_fd_ = -1;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_SIGNAL_PIPE_H_
