// LoopOutcome: whether the loop is done with its only job, and how that ended.
//
// Thread rule: Wait from any thread, the rest from the loop's thread.
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
  // How the only job ended.
  void Ended(v1::End end) {
    MutexLock lock(mutex_);
    end_ = std::move(end);
  }
  // The only job is removed, or the loop ends.
  void Done() {
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  // Blocks until Done. Returns how the job ended; nullopt: it has not.
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
