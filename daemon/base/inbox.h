// Inbox: the bounded queue through which gRPC and other threads hand values to
// the one loop thread.
//
// Thread rule: Post from any thread; Take and Close from the loop thread alone.
// Never calls out.
#ifndef ROLLCALL_DAEMON_BASE_INBOX_H_
#define ROLLCALL_DAEMON_BASE_INBOX_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/base/machine.h"
#include "daemon/base/mutex.h"

namespace rollcall {

template <typename T>
class Inbox {
 public:
  // `machine`: where its threads run; must outlive it.
  explicit Inbox(size_t most, Machine& machine = RealMachine())
      : most_(most), machine_(machine) {}

  // False: the inbox is full or closed, and the value is dropped. The caller
  // must end what it came from (a stream), so that nothing is lost unseen.
  bool Post(T value) {
    MutexLock lock(mutex_);
    if (closed_ || values_.size() >= most_) return false;
    values_.push_back(std::move(value));
    machine_.Notify(ready_);
    return true;
  }

  // For what must never be dropped and is bounded by itself (the end of a
  // stream, a process's exit, a signal). Dropped where the inbox is closed.
  void PostAlways(T value) {
    MutexLock lock(mutex_);
    if (closed_) return;
    values_.push_back(std::move(value));
    machine_.Notify(ready_);
  }

  // Waits until there is something, or `timeout` has passed, and takes all.
  std::vector<T> Take(absl::Duration timeout) {
    std::vector<T> taken;
    MutexLock lock(mutex_);
    const absl::Time until = machine_.Now() + timeout;
    while (values_.empty()) {
      const absl::Duration left = until - machine_.Now();
      if (left <= absl::ZeroDuration()) break;
      machine_.WaitFor(ready_, mutex_, left);
    }
    taken.swap(values_);
    return taken;
  }

  // Takes what is left, without waiting; nothing can be posted from then on.
  std::vector<T> Close() {
    std::vector<T> left;
    MutexLock lock(mutex_);
    closed_ = true;
    left.swap(values_);
    return left;
  }

 private:
  const size_t most_;
  Machine& machine_;
  Mutex mutex_;
  CondVar ready_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<T> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_INBOX_H_
