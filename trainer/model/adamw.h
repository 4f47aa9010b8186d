// AdamW: Adam with decoupled weight decay, and the learning rate's schedule.
//
// Pure arithmetic that rounds the same on every machine (no fused operations,
// only correctly rounded ones), so that ranks whose gradients agree to the bit
// keep weights that do.
#ifndef ROLLCALL_TRAINER_MODEL_ADAMW_H_
#define ROLLCALL_TRAINER_MODEL_ADAMW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trainer/model/crew.h"
#include "trainer/model/parameters.h"

namespace rollcall {

struct AdamWConfig {
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;  // Of matrices alone.
  float clip = 1.0f;          // Gradients' norm is held at this.
};

// beta to the number of steps taken, by repeated products: std::pow may differ
// in the last bit between machines.
struct AdamWPowers {
  double beta1 = 1, beta2 = 1;
};

// What the optimizer carries from step to step.
struct AdamWState {
  std::vector<float> first, second;  // The running moments.
  AdamWPowers powers;
};

class AdamW {
 public:
  AdamW(const AdamWConfig& config, const GptLayout& layout);

  // One update of `weights`; the first call is step 1. Returns the gradients'
  // norm before clipping. Gradients that are not finite change nothing: the
  // returned norm says so.
  // A `crew` shares the work, without any effect on its bits.
  double Step(absl::Span<float> weights, absl::Span<const float> gradients,
              float learning_rate, Crew* crew = nullptr);

  // Its vectors keep their sizes.
  AdamWState& state() { return state_; }
  // As before step 1.
  void Reset();

 private:
  double Norm(absl::Span<const float> gradients, Crew& crew) const;

  const AdamWConfig config_;
  const std::vector<Tensor> tensors_;
  AdamWState state_;
};

// Of step 1, 2, ...: grows linearly to `peak` over `warmup` steps, then falls
// to a tenth of it at `steps` along half a cosine.
float LearningRate(float peak, int64_t step, int64_t warmup, int64_t steps);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_ADAMW_H_
