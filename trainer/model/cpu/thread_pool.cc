#include "trainer/model/cpu/thread_pool.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace rollcall {

void ThreadPool::Resize(int threads) {
  CHECK_GE(threads, 1);
  if (threads == this->threads()) return;
  ending_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& other : others_) other.join();
  others_.clear();
  ending_ = false;
  for (int part = 1; part < threads; ++part) {
    others_.emplace_back([this, seen = round_.load()] { RunWorker(seen); });
  }
}

void ThreadPool::Split(int64_t count, int64_t grain, Work work) {
  const int64_t grains = (count + grain - 1) / grain;
  if (others_.empty() || grains <= 1) {
    if (count > 0) work(0, count, 0);
    return;
  }
  work_ = &work;
  count_ = count;
  piece_ = (grains + threads() - 1) / threads() * grain;
  const auto pieces = static_cast<uint32_t>((count + piece_ - 1) / piece_);
  undone_.store(pieces, std::memory_order_relaxed);
  free_.store(pieces, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  TakePieces();
  while (const uint32_t left = undone_.load(std::memory_order_acquire)) {
    undone_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::RunWorker(uint32_t seen) {
  for (;;) {
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (ending_.load(std::memory_order_acquire)) return;
    TakePieces();
  }
}

void ThreadPool::TakePieces() {
  uint32_t free = free_.load(std::memory_order_acquire);
  while (free > 0) {
    if (!free_.compare_exchange_weak(free, free - 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      continue;
    }
    const int64_t begin = piece_ * (free - 1);
    (*work_)(begin, std::min(count_, begin + piece_),
             static_cast<int>(free - 1));
    if (undone_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      undone_.notify_one();
    }
    free = free_.load(std::memory_order_acquire);
  }
}

}  // namespace rollcall
