// A backend that passes every call on to another one. A test overrides what it
// wants to see or to change.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_WRAPPED_BACKEND_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_WRAPPED_BACKEND_H_

#include <memory>
#include <utility>

#include "trainer/model/backend.h"

namespace rollcall {

class WrappedBackend : public Backend {
 public:
  explicit WrappedBackend(std::unique_ptr<Backend> inner)
      : inner_(std::move(inner)) {}

  absl::string_view name() const override { return inner_->name(); }
  const GptConfig& config() const override { return inner_->config(); }
  const GptLayout& layout() const override { return inner_->layout(); }
  double StateBytes() const override { return inner_->StateBytes(); }
  double ActivationBytes(int sequences) const override {
    return inner_->ActivationBytes(sequences);
  }
  absl::StatusOr<double> RoomForActivations(int ranks_here) override {
    return inner_->RoomForActivations(ranks_here);
  }
  bool FirstSumTakesMemory() const override {
    return inner_->FirstSumTakesMemory();
  }
  double PeakBytes() const override { return inner_->PeakBytes(); }
  absl::Status Reserve(int sequences) override {
    return inner_->Reserve(sequences);
  }
  absl::Status Reset(uint64_t seed) override { return inner_->Reset(seed); }
  absl::Span<const Bucket> buckets() const override {
    return inner_->buckets();
  }
  absl::Span<float> gradients() override { return inner_->gradients(); }
  absl::Status LossAndGradients(absl::Span<const Token> tokens,
                                absl::Span<const Token> targets, float scale,
                                bool stop, const Finished& finished) override {
    return inner_->LossAndGradients(tokens, targets, scale, stop, finished);
  }
  absl::StatusOr<Extras> ReadExtras() override { return inner_->ReadExtras(); }
  absl::StatusOr<double> Update(float learning_rate, double norm_max) override {
    return inner_->Update(learning_rate, norm_max);
  }
  absl::StatusOr<double> Loss(absl::Span<const Token> tokens,
                              absl::Span<const Token> targets) override {
    return inner_->Loss(tokens, targets);
  }
  absl::Span<float> state(StatePart part) override {
    return inner_->state(part);
  }
  absl::Status WeightsChanged() override { return inner_->WeightsChanged(); }
  absl::Status CopyOut(StatePart part, absl::Span<float> host) override {
    return inner_->CopyOut(part, host);
  }
  absl::Status CopyIn(StatePart part, absl::Span<const float> host) override {
    return inner_->CopyIn(part, host);
  }
  std::shared_ptr<void> Pin(absl::Span<float> host) override {
    return inner_->Pin(host);
  }
  absl::StatusOr<uint64_t> Fingerprint() override {
    return inner_->Fingerprint();
  }
  AdamWPowers& powers() override { return inner_->powers(); }

 private:
  const std::unique_ptr<Backend> inner_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_WRAPPED_BACKEND_H_
