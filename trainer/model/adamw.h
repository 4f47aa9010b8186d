// AdamW: Adam with decoupled weight decay.
//
// Pure arithmetic that rounds the same way on every machine (no fused
// operations, only correctly rounded ones). So ranks with bitwise equal
// gradients keep bitwise equal weights.
#ifndef ROLLCALL_TRAINER_MODEL_ADAMW_H_
#define ROLLCALL_TRAINER_MODEL_ADAMW_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "trainer/model/cpu/thread_pool.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// No limit of the gradients' norm.
inline constexpr double kAnyNorm = std::numeric_limits<double>::infinity();

struct AdamWConfig {
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;  // Applied to matrices only.
  float clip = 1.0f;          // Maximum norm of the gradients.
};

// Each beta to the power of the number of steps taken. It is computed by
// repeated multiplication, because std::pow may differ in the last bit between
// machines.
struct AdamWPowers {
  double beta1 = 1, beta2 = 1;
};

// The optimizer's state between steps.
struct AdamWState {
  std::vector<float> first, second;  // The running moments.
  AdamWPowers powers;
};

class AdamW {
 public:
  AdamW(const AdamWConfig& config, const GptLayout& layout);

  // Applies one update to `weights`; the first call is step 1. Returns the norm
  // of the gradients before clipping. Gradients that are not finite change
  // nothing, and the returned norm is then not finite. Neither does a norm
  // above `norm_max`. A `pool` shares the work and does not change the result's
  // bits.
  double Step(absl::Span<float> weights, absl::Span<const float> gradients,
              float learning_rate, ThreadPool* pool = nullptr,
              double norm_max = kAnyNorm);

  // The vectors must keep their sizes.
  AdamWState& state() { return state_; }
  // Restores the state before step 1.
  void Reset();

 private:
  double Norm(absl::Span<const float> gradients, ThreadPool& pool) const;

  const AdamWConfig config_;
  const std::vector<Tensor> tensors_;
  AdamWState state_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_ADAMW_H_
