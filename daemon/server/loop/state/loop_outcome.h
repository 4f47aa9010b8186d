// LoopOutcome: whether Loop::Wait may return, and how the only job ended.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OUTCOME_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OUTCOME_H_

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class LoopOutcome {
 public:
  // Records how the only job ended. Call it before Done, so that Wait returns
  // it.
  void Ended(v1::End end) {
    MutexLock lock(mutex_);
    end_ = std::move(end);
  }
  // Wakes Wait: the only job is removed, its end was told for one lease, or the
  // loop ends. May be called again.
  void Done() {
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  // Blocks until Done. Returns how the job ended; nullopt: it has not,
  // or there is no only job.
  std::optional<v1::End> Wait() {
    MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
    return end_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::End> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_OUTCOME_H_
