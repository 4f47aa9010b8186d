// Crew: threads that share a loop, each its piece of it.
//
// How a loop is cut depends on its size and the number of threads alone; what
// is written must not depend on the cut, so that results are the same to the
// bit for any number of threads.
//
// Thread rule: one thread owns it and calls everything; it does a piece itself.
#ifndef ROLLCALL_TRAINER_MODEL_CREW_H_
#define ROLLCALL_TRAINER_MODEL_CREW_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace rollcall {

class Crew {
 public:
  Crew() = default;
  ~Crew() { Resize(1); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // How many share a loop from now on, the caller included; at least 1.
  void Resize(int threads);
  int threads() const { return static_cast<int>(others_.size()) + 1; }

  // Piece `part` of at most threads() goes from `begin` to `end`.
  using Work = absl::FunctionRef<void(int64_t begin, int64_t end, int part)>;
  // Has `work` done for pieces that make up [0, count) and begin at multiples
  // of `grain`, all at once; returns when all are done.
  void Split(int64_t count, int64_t grain, Work work);

 private:
  void Attend(uint32_t seen);
  // Does pieces that nobody has taken, until none is left.
  void TakePieces();

  std::vector<std::thread> others_;
  // Of a round. Written between two, by the owner alone; read by who has taken
  // a piece, which the owner waits for.
  const Work* work_ = nullptr;
  int64_t count_ = 0;
  int64_t piece_ = 0;
  std::atomic<bool> ending_{false};
  // Counts rounds, to wake the others.
  std::atomic<uint32_t> round_{0};
  // Pieces not yet taken, and not yet done. Whoever comes too late finds none:
  // the owner waits for no thread that has not begun.
  std::atomic<uint32_t> free_{0};
  std::atomic<uint32_t> undone_{0};
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_CREW_H_
