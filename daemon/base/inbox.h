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
  // `machine`: provides the waiting and the clock; must outlive the inbox.
  explicit Inbox(size_t most, Machine& machine = RealMachine())
      : most_(most), machine_(machine) {}

  // False: the inbox is full or closed, and the value is dropped. The caller
  // must then end the source of the value (a stream), so that the loss is
  // noticed.
  bool Post(T value) {
    MutexLock lock(mutex_);
    if (closed_ || values_.size() >= most_) return false;
    values_.push_back(std::move(value));
    machine_.Notify(ready_);
    return true;
  }

  // For values that must never be dropped and whose number is bounded by their
  // source (the end of a stream, a process's exit, a signal). A closed inbox
  // drops them.
  void PostAlways(T value) {
    MutexLock lock(mutex_);
    if (closed_) return;
    values_.push_back(std::move(value));
    machine_.Notify(ready_);
  }

  // Waits until there is a value or `timeout` has passed, and takes all values.
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

  // Takes the remaining values without waiting. Values posted later are
  // dropped.
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
