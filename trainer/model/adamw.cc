#include "trainer/model/adamw.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "daemon/base/check.h"
#include "trainer/model/cpu/loops.h"

namespace rollcall {
namespace {

// The number of values that a thread takes at a time. The sum of squares is
// summed piece by piece, so that it does not depend on the number of threads.
constexpr size_t kPiece = 16384;

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

double AdamW::Norm(absl::Span<const float> gradients, ThreadPool& pool) const {
  const size_t pieces = (gradients.size() + kPiece - 1) / kPiece;
  std::vector<double> squares(pieces);
  pool.Split(pieces, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const absl::Span<const float> piece =
          gradients.subspan(i * kPiece, kPiece);
      squares[i] = LoopsHere<float>().squares(piece.data(), piece.size());
    }
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

double AdamW::Step(absl::Span<float> weights, absl::Span<const float> gradients,
                   float learning_rate, ThreadPool* pool, double norm_max) {
  std::vector<float>& first = state_.first;
  std::vector<float>& second = state_.second;
  CHECK_EQ(weights.size(), first.size());
  CHECK_EQ(gradients.size(), first.size());
  ThreadPool alone;
  if (pool == nullptr) pool = &alone;
  const double norm = Norm(gradients, *pool);
  if (!std::isfinite(norm) || norm > norm_max) return norm;

  state_.powers.beta1 *= config_.beta1;
  state_.powers.beta2 *= config_.beta2;
  AdamWFactors factors;
  factors.shrink =
      norm > config_.clip ? static_cast<float>(config_.clip / norm) : 1.0f;
  factors.beta1 = config_.beta1;
  factors.beta2 = config_.beta2;
  factors.bias1 = static_cast<float>(1 / (1 - state_.powers.beta1));
  factors.bias2 = static_cast<float>(1 / (1 - state_.powers.beta2));
  factors.epsilon = config_.epsilon;
  factors.learning_rate = learning_rate;
  for (const Tensor& tensor : tensors_) {
    factors.keep =
        tensor.decays() ? 1 - learning_rate * config_.weight_decay : 1.0f;
    pool->Split(tensor.size, kPiece, [&](int64_t begin, int64_t end, int) {
      const size_t at = tensor.offset + begin;
      AdamWLoopHere()(weights.data() + at, first.data() + at,
                      second.data() + at, gradients.data() + at, end - begin,
                      factors);
    });
  }
  return norm;
}

}  // namespace rollcall
