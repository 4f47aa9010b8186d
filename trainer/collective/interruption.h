// Interruption: the one word that ends what a rank waits for in its peers'
// hands: the world is over.
//
// Raised once, by whoever hears of it (a gRPC thread); seen by the training
// thread as one atomic load, and told to what it is blocked in.
//
// Thread rule: any thread.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_INTERRUPTION_H_
#define ROLLCALL_TRAINER_COLLECTIVE_INTERRUPTION_H_

#include <atomic>
#include <functional>
#include <utility>

#include "daemon/server/mutex.h"

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

  // `wake` is called when it is raised, at once where it has been. It must own
  // what it touches: it may still run when another takes its place.
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
