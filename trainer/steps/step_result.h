// StepResult: the result of one training step.
#ifndef ROLLCALL_TRAINER_STEPS_STEP_RESULT_H_
#define ROLLCALL_TRAINER_STEPS_STEP_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace rollcall {

struct StepResult {
  int64_t step = 0;
  double loss = 0;  // Mean over the whole batch, before the update.
  float learning_rate = 0;
  double gradient_norm = 0;   // Before clipping.
  uint64_t memory_bytes = 0;  // The most used so far; see Backend::PeakBytes.
  // Why the step changed no weights; empty: it did. See SpikeGuard.
  std::string skipped;
  int64_t skipped_steps = 0;  // How many steps were skipped so far.
  // True: some rank was asked to stop at a boundary, so all ranks stop after
  // this step.
  bool boundary = false;
  // The validation after this step, if there was one: the loss on held-out
  // data, and how long it took, which is no part of the step.
  std::optional<double> validation_loss;
  absl::Duration validation_took;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_STEPS_STEP_RESULT_H_
