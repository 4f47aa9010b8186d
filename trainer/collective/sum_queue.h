// SumQueue: sums that go on beside the caller's own work, one after the other
// on one thread.
//
// After one has failed, those behind it are dropped, and so are all later ones:
// the collective is of no more use.
//
// Thread rule: Begin and Wait from one thread. The destructor waits for the one
// at work; whoever may end that early does so before.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_SUM_QUEUE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_SUM_QUEUE_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "daemon/server/mutex.h"

namespace rollcall {

class SumQueue {
 public:
  using Sum = std::function<absl::Status(absl::Span<float>)>;
  // The thread begins with the first Begin.
  explicit SumQueue(Sum sum);
  ~SumQueue();

  // Returns at once. Errors: of one before.
  absl::Status Begin(absl::Span<float> values);
  // Until all are done, or one has failed.
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
