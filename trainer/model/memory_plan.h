// MemoryPlan: how much memory a rank needs in a world, and how many sequences
// of its share it computes at a time.
//
// Pure.
#ifndef ROLLCALL_TRAINER_MODEL_MEMORY_PLAN_H_
#define ROLLCALL_TRAINER_MODEL_MEMORY_PLAN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace rollcall {

// All sizes are in bytes.
struct MemoryWishes {
  int share = 1;        // The most sequences of one step.
  int micro_batch = 0;  // At a time; 0: as many as fit.
  double most = 0;      // For state and activations together; 0: no limit.
};
struct MemoryFacts {
  double state = 0;  // Weights, moments and gradients; already allocated.
  double room = 0;   // For activations.
  // The activations of this many sequences at a time.
  std::function<double(int)> activations;
};

struct MemoryPlan {
  int share = 1;
  int micro_batch = 1;
  double state = 0;
  double activations = 0;  // Of one micro-batch.
  double room = 0;

  // One line for people.
  std::string ToString() const;
};

// If `wishes.micro_batch` is set, plans that many sequences at a time, but at
// most the share. Otherwise plans as few micro-batches as fit, of about equal
// size. It plans one sequence even if that does not seem to fit, because the
// room is only an estimate. RESOURCE_EXHAUSTED: more than `wishes.most`.
absl::StatusOr<MemoryPlan> PlanMemory(const MemoryWishes& wishes,
                                      const MemoryFacts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_MEMORY_PLAN_H_
