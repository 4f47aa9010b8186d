#include "daemon/base/processes/signal_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "daemon/base/check.h"

namespace rollcall {
namespace {

// The write end of the pipe. It is global because a signal handler takes no
// argument of ours. -1: there is no SignalPipe, and writes fail.
std::atomic<int> handler_fd{-1};

void WriteSignal(int signal) {
  const int saved = errno;
  const char byte = static_cast<char>(signal);
  // If the pipe is full, this signal may be dropped: many signals are unread.
  [[maybe_unused]] const ssize_t wrote = write(handler_fd.load(), &byte, 1);
  errno = saved;
}

void Nothing(int) {}

void Install(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  // nohup has set SIGHUP to be ignored; it stays ignored.
  if (signal == SIGHUP && action.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

SignalPipe::SignalPipe(const std::vector<int>& signals) {
  int fds[2];
  CHECK_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
  read_fd_ = fds[0];
  write_fd_ = fds[1];
  CHECK_EQ(handler_fd.exchange(write_fd_), -1);
  for (int signal : signals) Install(signal, WriteSignal);
  for (const int signal : {SIGPIPE, SIGXFSZ}) Install(signal, Nothing);
}

SignalPipe::~SignalPipe() {
  handler_fd.store(-1);
  close(read_fd_);
  close(write_fd_);
}

int SignalPipe::Read() {
  char byte = 0;
  return read(read_fd_, &byte, 1) == 1 ? byte : 0;
}

}  // namespace rollcall
