// SumQueue: runs sums one after the other on a second thread, while the caller
// continues.
//
// After a failed sum, all queued and all later sums are dropped, because the
// collective is unusable.
//
// Thread rule: call Begin and Wait from one thread. The destructor waits for
// the running sum; to end that sum early, interrupt the collective first.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_SUM_QUEUE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_SUM_QUEUE_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/base/mutex.h"

namespace rollcall {

class SumQueue {
 public:
  using Sum = std::function<absl::Status(absl::Span<float>)>;
  // The thread starts at the first Begin.
  explicit SumQueue(Sum sum);
  ~SumQueue();

  // Returns at once. An error is that of an earlier sum.
  absl::Status Begin(absl::Span<float> values);
  // Waits until all sums are done or one has failed.
  absl::Status Wait();

 private:
  void Run();

  const Sum sum_;
  std::thread thread_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<absl::Span<float>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_SUM_QUEUE_H_
