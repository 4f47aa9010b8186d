// A mutex that clang's thread-safety analysis understands.
//
// It wraps std::mutex and not absl::Mutex, because ThreadSanitizer reports
// false races in a packaged absl::Mutex that was not built for it.
#ifndef ROLLCALL_DAEMON_BASE_MUTEX_H_
#define ROLLCALL_DAEMON_BASE_MUTEX_H_

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace rollcall {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // Returns after a notification, a spurious wake-up or `timeout`.
  void WaitFor(Mutex& mutex, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // Bounded, so that InfiniteDuration does not overflow the clock.
    condition_.wait_for(
        lock, absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(1))));
    lock.release();
  }

 private:
  std::condition_variable condition_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_MUTEX_H_
