#include "trainer/rank/leave_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace rollcall {
namespace {

std::atomic<int> latest{0};  // The latest signal; 0: none yet.
static_assert(std::atomic<int>::is_always_lock_free);
// An eventfd, readable once a signal has come. -1: it could not be created.
int arrived = -1;

void Signal(int fd) {
  const uint64_t one = 1;
  // The write fails only if the eventfd is full, and then it is already
  // readable.
  [[maybe_unused]] const ssize_t ignored = write(fd, &one, sizeof one);
}

void OnSignal(int signal) {
  const int error = errno;
  latest.store(signal, std::memory_order_relaxed);
  Signal(arrived);
  errno = error;
}

void Handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGUSR1}) {
    sigaction(signal, &action, nullptr);
  }
}

// Waits until either is readable. Returns true if `first` is.
bool AwaitEither(int first, int second) {
  pollfd polled[] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  while (poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
  return polled[0].revents != 0;
}

}  // namespace

LeaveSignals::LeaveSignals() {
  arrived = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Handle(OnSignal);
}

LeaveSignals::~LeaveSignals() {
  EndWait();
  Handle(SIG_DFL);
  if (arrived >= 0) close(std::exchange(arrived, -1));
}

bool LeaveSignals::asked() const {
  return latest.load(std::memory_order_relaxed) != 0;
}

int LeaveSignals::fd() const { return arrived; }

void LeaveSignals::BeginWait(std::function<void()> wake) {
  end_wait_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  // Without file descriptors, signals are ignored during this wait. The sender
  // can still send SIGKILL.
  if (arrived < 0 || end_wait_ < 0) return;
  waiting_ = std::thread([wake = std::move(wake), end = end_wait_] {
    if (AwaitEither(arrived, end)) wake();
  });
}

void LeaveSignals::EndWait() {
  if (waiting_.joinable()) {
    Signal(end_wait_);
    waiting_.join();
  }
  if (end_wait_ >= 0) close(std::exchange(end_wait_, -1));
}

void LeaveSignals::Release() {
  Handle(SIG_DFL);
  if (const int signal = latest.load(std::memory_order_relaxed); signal != 0) {
    raise(signal);
  }
}

}  // namespace rollcall
