#include "trainer/model/adamw.h"

#include <algorithm>
#include <cmath>

#include "daemon/core/check.h"

namespace rollcall {
namespace {

// Of 0 to pi, by its series: libraries' cosines differ in the last bit.
double Cosine(double x) {
  double term = 1;
  double sum = 1;
  for (int i = 1; i <= 24; i += 2) {
    term *= -x * x / (i * (i + 1));
    sum += term;
  }
  return sum;
}

}  // namespace

AdamW::AdamW(const AdamWConfig& config, const GptLayout& layout)
    : config_(config), tensors_(layout.tensors) {
  state_.first.resize(layout.size);
  state_.second.resize(layout.size);
}

void AdamW::Reset() {
  std::fill(state_.first.begin(), state_.first.end(), 0.0f);
  std::fill(state_.second.begin(), state_.second.end(), 0.0f);
  state_.powers = AdamWPowers();
}

double AdamW::Step(absl::Span<float> weights, absl::Span<const float> gradients,
                   float learning_rate) {
  std::vector<float>& first = state_.first;
  std::vector<float>& second = state_.second;
  CHECK_EQ(weights.size(), first.size());
  CHECK_EQ(gradients.size(), first.size());
  double squares = 0;
  for (float g : gradients) squares += double(g) * g;
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm)) return norm;

  const float shrink =
      norm > config_.clip ? static_cast<float>(config_.clip / norm) : 1.0f;
  state_.powers.beta1 *= config_.beta1;
  state_.powers.beta2 *= config_.beta2;
  const float bias1 = static_cast<float>(1 / (1 - state_.powers.beta1));
  const float bias2 = static_cast<float>(1 / (1 - state_.powers.beta2));
  for (const Tensor& tensor : tensors_) {
    const float keep =
        tensor.decays() ? 1 - learning_rate * config_.weight_decay : 1.0f;
    for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const float g = gradients[i] * shrink;
      first[i] = config_.beta1 * first[i] + (1 - config_.beta1) * g;
      second[i] = config_.beta2 * second[i] + (1 - config_.beta2) * g * g;
      const float step =
          first[i] * bias1 / (std::sqrt(second[i] * bias2) + config_.epsilon);
      weights[i] = weights[i] * keep - learning_rate * step;
    }
  }
  return norm;
}

float LearningRate(float peak, int64_t step, int64_t warmup, int64_t steps) {
  if (step <= warmup) return peak * static_cast<float>(step) / warmup;
  const double done =
      steps > warmup
          ? std::min(1.0, double(step - warmup) / double(steps - warmup))
          : 1.0;
  constexpr double kPi = 3.14159265358979323846;
  return static_cast<float>(peak * (0.1 + 0.45 * (1 + Cosine(kPi * done))));
}

}  // namespace rollcall
