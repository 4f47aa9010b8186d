#include "client/agent/processes/signal_thread.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/check.h"

namespace rollcall {

SignalThread::SignalThread(std::function<void(AgentEvent)> post)
    : post_(std::move(post)),
      signals_({SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGUSR2}),
      end_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

SignalThread::~SignalThread() {
  const uint64_t one = 1;
  CHECK_EQ(write(end_.get(), &one, sizeof(one)),
           static_cast<ssize_t>(sizeof(one)));
  thread_.join();
}

void SignalThread::Run() {
  pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0) continue;  // A signal interrupted the poll.
    if (fds[1].revents != 0) return;
    while (const int signal = signals_.Read()) {
      if (signal == SIGUSR2) {
        post_(SignalCame{signal});
      } else {
        post_(LeaveAsked{signal});
      }
    }
  }
}

}  // namespace rollcall
