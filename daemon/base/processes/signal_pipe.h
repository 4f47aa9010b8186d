// SignalPipe: makes signals readable from a pipe, one byte for each.
//
// It uses handlers and not a blocked signal mask, because exec resets handlers
// to the default, so children inherit nothing. SIGPIPE and SIGXFSZ get an empty
// handler for the same reason: writes to a closed pipe and beyond `ulimit -f`
// fail with EPIPE and EFBIG and do not end the process.
//
// The handlers stay when the SignalPipe is destroyed, and the signals then have
// no effect: a process destroys its SignalPipe when its exit code is decided,
// and a signal in its last moments must not change that code.
//
// Thread rule: a process has at most one SignalPipe; call Read from one thread.
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_SIGNAL_PIPE_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_SIGNAL_PIPE_H_

#include <vector>

namespace rollcall {

class SignalPipe {
 public:
  explicit SignalPipe(const std::vector<int>& signals);
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  // Readable when a signal has arrived.
  int fd() const { return read_fd_; }
  // The next signal; 0: there is none. Never blocks.
  int Read();

 private:
  int read_fd_ = -1;
  int write_fd_ = -1;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_SIGNAL_PIPE_H_
