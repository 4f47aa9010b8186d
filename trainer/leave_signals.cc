#include "trainer/leave_signals.h"

#include <signal.h>

#include <atomic>

namespace rollcall {
namespace {

std::atomic<int> came{0};  // The last one; 0: none.
static_assert(std::atomic<int>::is_always_lock_free);

void OnSignal(int signal) { came.store(signal, std::memory_order_relaxed); }

void Handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGUSR1}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

LeaveSignals::LeaveSignals() { Take(); }

bool LeaveSignals::asked() const {
  return came.load(std::memory_order_relaxed) != 0;
}

void LeaveSignals::Release() {
  Handle(SIG_DFL);
  if (const int signal = came.load(std::memory_order_relaxed); signal != 0) {
    raise(signal);
  }
}

void LeaveSignals::Take() { Handle(OnSignal); }

}  // namespace rollcall
