// ThreadPool: threads that share the iterations of a loop.
//
// How a loop is cut depends only on its size and the number of threads. What a
// loop writes must not depend on the cut. Then results are bitwise equal for
// any number of threads.
//
// Thread rule: one thread owns the pool and calls all functions; it also
// executes pieces itself.
#ifndef ROLLCALL_TRAINER_MODEL_CPU_THREAD_POOL_H_
#define ROLLCALL_TRAINER_MODEL_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace rollcall {

class ThreadPool {
 public:
  ThreadPool() = default;
  ~ThreadPool() { Resize(1); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Sets how many threads share a loop, with the caller; at least 1.
  void Resize(int threads);
  int threads() const { return static_cast<int>(others_.size()) + 1; }

  // Executes piece `part` (below threads()): `begin` to `end`.
  using Work = absl::FunctionRef<void(int64_t begin, int64_t end, int part)>;
  // Cuts [0, count) into pieces that begin at multiples of `grain`, executes
  // `work` on all of them in parallel, and returns when all are done.
  void Split(int64_t count, int64_t grain, Work work);

 private:
  void RunWorker(uint32_t seen);
  // Executes pieces until all are taken.
  void TakePieces();

  std::vector<std::thread> others_;
  // These describe the current round. Only the owner writes them, between two
  // rounds. Threads that have taken a piece read them; the owner waits for
  // those threads.
  const Work* work_ = nullptr;
  int64_t count_ = 0;
  int64_t piece_ = 0;
  std::atomic<bool> ending_{false};
  // The number of rounds so far; a change wakes the workers.
  std::atomic<uint32_t> round_{0};
  // The pieces that are not yet taken, and the pieces that are not yet done. A
  // worker that wakes late finds none to take: the owner does not wait for
  // workers that have not taken a piece.
  std::atomic<uint32_t> free_{0};
  std::atomic<uint32_t> undone_{0};
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_CPU_THREAD_POOL_H_
