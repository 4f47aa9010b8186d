#include "trainer/collective/sum_queue.h"

#include <utility>

namespace rollcall {

SumQueue::SumQueue(Sum sum) : sum_(std::move(sum)) {}

SumQueue::~SumQueue() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    waiting_.clear();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status SumQueue::Begin(absl::Span<float> values) {
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  MutexLock lock(mutex_);
  if (!status_.ok()) return status_;
  waiting_.push_back(values);
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status SumQueue::Wait() {
  MutexLock lock(mutex_);
  while (status_.ok() && (busy_ || !waiting_.empty())) changed_.Wait(mutex_);
  return status_;
}

void SumQueue::Run() {
  absl::Span<float> values;
  absl::Status status;
  while (true) {
    {
      MutexLock lock(mutex_);
      busy_ = false;
      if (!status.ok()) status_ = status;
      if (!status_.ok()) waiting_.clear();
      changed_.NotifyAll();
      while (waiting_.empty() && !ending_) changed_.Wait(mutex_);
      if (ending_) return;
      values = waiting_.front();
      waiting_.pop_front();
      busy_ = true;
    }
    status = sum_(values);
  }
}

}  // namespace rollcall
