#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/counted.h"
#include "trainer/model/backend.h"
#include "trainer/model/cpu/host_memory.h"
#include "trainer/model/gpt.h"
#include "trainer/model/state_fingerprint.h"

namespace rollcall {
namespace {

// The part of the free memory that activations may use. The rest is for copies
// of the state (checkpoints), the network and other programs.
constexpr double kActivationsPart = 0.8;

// Values that a thread takes at least of a fingerprint; even, so that it has
// whole pairs.
constexpr int64_t kFingerprintGrain = 4096;

// Weights and gradients, and two moments.
double StateBytes(const GptConfig& config) {
  return Gpt<float>::MemoryBytes(config, 0) +
         2.0 * sizeof(float) * GptLayout(config).size;
}

// `free`: in bytes. What other ranks on the same machine will need is not
// counted.
absl::Status CheckMemory(const GptConfig& config, int sequences, double free) {
  const double needed = StateBytes(config) -
                        Gpt<float>::MemoryBytes(config, 0) +
                        Gpt<float>::MemoryBytes(config, sequences);
  if (needed <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the model with %s at once needs %.1f GB, free here (machine and "
      "cgroup) are %.1f GB; lower --micro-batch, --context or --width",
      Counted(sequences, "sample"), needed / 1e9, free / 1e9));
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const GptConfig& config, const AdamWConfig& optimizer)
      : config_(config),
        layout_(config),
        buckets_(CutBuckets(layout_, kExtras)),
        optimizer_(optimizer, layout_) {}

  absl::string_view name() const override { return "cpu"; }
  bool FirstSumTakesMemory() const override { return false; }
  const GptConfig& config() const override { return config_; }
  const GptLayout& layout() const override { return layout_; }

  double StateBytes() const override { return rollcall::StateBytes(config_); }
  double ActivationBytes(int sequences) const override {
    return Gpt<float>::MemoryBytes(config_, sequences) -
           Gpt<float>::MemoryBytes(config_, 0);
  }
  absl::StatusOr<double> RoomForActivations(int ranks_here) override {
    return kActivationsPart * FreeHostBytes() / std::max(ranks_here, 1) +
           (model_ == nullptr ? 0 : ActivationBytes(sequences_));
  }

  double PeakBytes() const override {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return 1024.0 * static_cast<double>(usage.ru_maxrss);
  }

  absl::Status Reserve(int sequences) override {
    if (model_ != nullptr && sequences == sequences_) return absl::OkStatus();
    // The moments, and a model, which is freed, have theirs already.
    const double held =
        StateBytes() - Gpt<float>::MemoryBytes(config_, 0) +
        (model_ == nullptr ? 0 : Gpt<float>::MemoryBytes(config_, sequences_));
    if (absl::Status s =
            CheckMemory(config_, sequences, FreeHostBytes() + held);
        !s.ok()) {
      return s;
    }
    std::vector<float> weights;
    if (model_ != nullptr) {
      weights.assign(model_->weights().begin(), model_->weights().end());
    }
    model_.reset();
    model_ = std::make_unique<Gpt<float>>(config_, sequences, kExtras);
    sequences_ = sequences;
    std::copy(weights.begin(), weights.end(), model_->weights().begin());
    return absl::OkStatus();
  }

  absl::Status Reset(uint64_t seed) override {
    InitializeWeights(config_, layout_, seed, model_->weights());
    optimizer_.Reset();
    return absl::OkStatus();
  }

  absl::Span<const Bucket> buckets() const override { return buckets_; }
  absl::Span<float> gradients() override { return model_->gradients(); }

  absl::Status LossAndGradients(absl::Span<const Token> tokens,
                                absl::Span<const Token> targets, float scale,
                                bool stop, const Finished& finished) override {
    absl::Status status;
    size_t next = 0;
    const auto finish_to = [&](int block) {
      while (next < buckets_.size() && buckets_[next].block >= block &&
             status.ok()) {
        status = finished(buckets_[next++]);
      }
    };
    Gpt<float>::Watch watch;
    watch.before_backward = [&](double loss) {
      model_->gradients()[layout_.size] = static_cast<float>(loss * scale);
      model_->gradients()[layout_.size + 1] = stop ? 1 : 0;
    };
    watch.block_done = finish_to;
    model_->LossAndGradients(tokens, targets, scale, watch);
    finish_to(Bucket::kTables);
    return status;
  }

  absl::StatusOr<Extras> ReadExtras() override {
    return Extras{model_->gradients()[layout_.size],
                  model_->gradients()[layout_.size + 1]};
  }

  absl::StatusOr<double> Update(float learning_rate, double norm_max) override {
    return optimizer_.Step(model_->weights(),
                           model_->gradients().first(layout_.size),
                           learning_rate, &model_->pool(), norm_max);
  }

  absl::StatusOr<double> Loss(absl::Span<const Token> tokens,
                              absl::Span<const Token> targets) override {
    return model_->Loss(tokens, targets);
  }

  absl::Span<float> state(StatePart part) override {
    switch (part) {
      case StatePart::kWeights:
        return model_->weights();
      case StatePart::kFirstMoment:
        return absl::MakeSpan(optimizer_.state().first);
      case StatePart::kSecondMoment:
        return absl::MakeSpan(optimizer_.state().second);
    }
    return {};
  }
  absl::Status WeightsChanged() override { return absl::OkStatus(); }
  absl::Status CopyOut(StatePart part, absl::Span<float> host) override {
    const absl::Span<const float> from = state(part);
    std::copy(from.begin(), from.end(), host.begin());
    return absl::OkStatus();
  }
  absl::Status CopyIn(StatePart part, absl::Span<const float> host) override {
    std::copy(host.begin(), host.end(), state(part).begin());
    return absl::OkStatus();
  }
  std::shared_ptr<void> Pin(absl::Span<float>) override { return nullptr; }
  absl::StatusOr<uint64_t> Fingerprint() override {
    std::atomic<uint64_t> sum = 0;
    uint64_t part_begin = 0;
    for (const StatePart part : kStateParts) {
      const absl::Span<const float> values = state(part);
      model_->pool().Split(
          static_cast<int64_t>(values.size()), kFingerprintGrain,
          [&](int64_t begin, int64_t end, int) {
            sum += FingerprintOf(values.subspan(begin, end - begin),
                                 part_begin + begin / 2);
          });
      part_begin += kFingerprintPairsMax;
    }
    return sum;
  }
  AdamWPowers& powers() override { return optimizer_.state().powers; }

 private:
  const GptConfig config_;
  const GptLayout layout_;
  const std::vector<Bucket> buckets_;
  AdamW optimizer_;
  std::unique_ptr<Gpt<float>> model_;
  int sequences_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(
    const GptConfig& config, const AdamWConfig& optimizer) {
  if (absl::Status s = config.Validate(); !s.ok()) return s;
  if (absl::Status s = CheckMemory(config, 1, FreeHostBytes()); !s.ok())
    return s;
  return std::make_unique<CpuBackend>(config, optimizer);
}

}  // namespace rollcall
