// MemoryPlan: what memory a rank needs in a world, and how many sequences of
// its share it computes at once.
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
  int micro_batch = 0;  // At once; 0: as many as fit.
  double most = 0;      // For state and activations together; 0: no limit.
};
struct MemoryFacts {
  double state = 0;  // Weights, moments and gradients; taken already.
  double room = 0;   // For activations.
  // Of so many sequences at once.
  std::function<double(int)> activations;
};

struct MemoryPlan {
  int share = 1;
  int micro_batch = 1;
  double state = 0;
  double activations = 0;  // Of one micro-batch.
  double room = 0;

  // For a person, in one line.
  std::string ToString() const;
};

// As many sequences at once as are wished, at most the share. Without a wish:
// as few micro-batches as fit, of about equal size, and one sequence if not
// even that seems to fit, since the room is only an estimate.
// RESOURCE_EXHAUSTED: more than `wishes.most`.
absl::StatusOr<MemoryPlan> PlanMemory(const MemoryWishes& wishes,
                                      const MemoryFacts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_MEMORY_PLAN_H_
