// Interruption: tells a rank that waits for its peers that the world is over.
//
// It is raised once, by the thread that learns of the end. The training thread
// reads it with one atomic load. A blocked call registers a function that wakes
// it.
//
// Thread rule: any thread.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_INTERRUPTION_H_
#define ROLLCALL_TRAINER_COLLECTIVE_INTERRUPTION_H_

#include <atomic>
#include <functional>
#include <utility>

#include "daemon/base/mutex.h"

namespace rollcall {

class Interruption {
 public:
  bool raised() const { return raised_.load(std::memory_order_acquire); }

  void Raise() {
    std::function<void()> wake;
    {
      MutexLock lock(mutex_);
      raised_.store(true, std::memory_order_release);
      wake = wake_;
    }
    if (wake) wake();
  }

  // Registers `wake`, which is called when this is raised, or now if it is
  // already raised. `wake` must own what it uses, because it may still run
  // after another function has replaced it.
  void Wakes(std::function<void()> wake) {
    bool now = false;
    {
      MutexLock lock(mutex_);
      wake_ = wake;
      now = raised();
    }
    if (now && wake) wake();
  }

 private:
  std::atomic<bool> raised_{false};
  Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_INTERRUPTION_H_
