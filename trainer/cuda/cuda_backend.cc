#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/check.h"
#include "daemon/base/counted.h"
#include "trainer/cuda/cuda.h"
#include "trainer/cuda/device_memory.h"
#include "trainer/cuda/gpt_memory.h"
#include "trainer/cuda/gpt_passes.h"
#include "trainer/cuda/products.h"
#include "trainer/cuda/token_places.h"
#include "trainer/model/state_fingerprint.h"

namespace rollcall {
namespace {

constexpr double kGb = 1e9;

// Memory left free for the driver, the kernels and NCCL.
constexpr size_t kSpareBytes = size_t{256} << 20;

absl::Status CheckShape(const GptConfig& config) {
  if (absl::Status s = config.Validate(); !s.ok()) return s;
  const int head = config.width / config.heads;
  if (head % cuda::kPack == 0 && head <= cuda::kHeadMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "--width %d with --heads %d gives each head %d: on a GPU expected a "
      "multiple of %d, up to %d",
      config.width, config.heads, head, cuda::kPack, cuda::kHeadMax));
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const GptConfig& config, const AdamWConfig& optimizer,
              CudaDevice& device)
      : config_(config),
        layout_(config),
        buckets_(CutBuckets(layout_, kExtras)),
        optimizer_(optimizer),
        device_(device),
        stream_(device.compute()) {}

  ~CudaBackend() override {
    // Memory is freed only when no work uses it any more.
    device_.Synchronize("the end").IgnoreError();
  }

  absl::Status Open() {
    const std::vector<cuda::Piece> pieces = cuda::CutPieces(layout_);
    pieces_ = static_cast<int64_t>(pieces.size());
    Arena counted;
    state_.Place(layout_, pieces.size(), counted);
    absl::Status status = Afford(counted.bytes(), 0, 0);
    if (!status.ok()) return status;
    absl::StatusOr<DeviceMemory> memory =
        DeviceMemory::Take(device_, counted.bytes(), "the model's state");
    if (!memory.ok()) return memory.status();
    state_memory_ = *std::move(memory);
    Arena arena(state_memory_.get());
    state_.Place(layout_, pieces.size(), arena);
    // The bf16 copy's rows after the vocabulary stay zero.
    status = Zero(state_memory_.get(), counted.bytes());
    status.Update(Upload(state_.pieces, pieces.data(), pieces.size()));
    status.Update(device_.Synchronize("the model's state"));
    if (!status.ok()) return status;
    absl::StatusOr<std::unique_ptr<Products>> products =
        device_.MakeProducts(state_.workspace);
    if (!products.ok()) return products.status();
    products_ = *std::move(products);
    return absl::OkStatus();
  }

  absl::string_view name() const override { return "cuda"; }
  bool FirstSumTakesMemory() const override { return true; }
  const GptConfig& config() const override { return config_; }
  const GptLayout& layout() const override { return layout_; }

  double StateBytes() const override {
    return static_cast<double>(state_memory_.bytes());
  }
  double ActivationBytes(int sequences) const override {
    GptActivations counted;
    Arena arena;
    counted.Place(config_, int64_t{sequences} * config_.context, arena);
    return static_cast<double>(arena.bytes());
  }
  absl::StatusOr<double> RoomForActivations(int) override {
    const absl::StatusOr<size_t> free = device_.FreeBytes();
    if (!free.ok()) return free.status();
    return double(*free) + double(activation_memory_.bytes()) - kSpareBytes;
  }

  double PeakBytes() const override {
    return StateBytes() + static_cast<double>(activations_peak_);
  }

  absl::Status Reserve(int sequences) override {
    if (sequences == sequences_) return absl::OkStatus();
    const int64_t rows = int64_t{sequences} * config_.context;
    Arena counted;
    activations_.Place(config_, rows, counted);
    absl::Status status =
        Afford(counted.bytes(), activation_memory_.bytes(), sequences);
    if (status.ok()) status = device_.Synchronize("a batch of another size");
    if (!status.ok()) {
      PlaceActivations();
      return status;
    }
    const size_t before = activation_memory_.bytes();
    { DeviceMemory dropped = std::move(activation_memory_); }
    absl::StatusOr<DeviceMemory> memory =
        DeviceMemory::Take(device_, counted.bytes(), "a batch's activations");
    if (!memory.ok()) {
      // The free memory may be in pieces; the old size fits again.
      absl::StatusOr<DeviceMemory> again =
          DeviceMemory::Take(device_, before, "a batch's activations");
      if (again.ok()) activation_memory_ = *std::move(again);
      if (!again.ok()) sequences_ = 0;
      PlaceActivations();
      return memory.status();
    }
    activation_memory_ = *std::move(memory);
    activations_peak_ = std::max(activations_peak_, counted.bytes());
    sequences_ = sequences;
    PlaceActivations();
    return absl::OkStatus();
  }

  absl::Status Reset(uint64_t seed) override {
    std::vector<float> weights(layout_.size);
    InitializeWeights(config_, layout_, seed, absl::MakeSpan(weights));
    powers_ = AdamWPowers();
    absl::Status status = CopyIn(StatePart::kWeights, weights);
    for (float* moment : {state_.first, state_.second}) {
      status.Update(Zero(moment, layout_.size * sizeof(float)));
    }
    status.Update(WeightsChanged());
    status.Update(device_.Synchronize("the first weights"));
    return status;
  }

  absl::Span<const Bucket> buckets() const override { return buckets_; }
  absl::Span<float> gradients() override {
    return {state_.gradients, layout_.size + kExtras};
  }

  absl::Status LossAndGradients(absl::Span<const Token> tokens,
                                absl::Span<const Token> targets, float scale,
                                bool stop, const Finished& finished) override {
    size_t next = 0;
    const auto finish_to = [&](int block) {
      absl::Status status;
      while (next < buckets_.size() && buckets_[next].block >= block &&
             status.ok()) {
        status = finished(buckets_[next++]);
      }
      return status;
    };
    absl::Status status = tokens.empty() ? NoGradients(stop) : absl::OkStatus();
    GptPasses::Step step;
    step.scale = scale;
    step.stop = stop;
    const auto pass = [&](const Batch& batch, bool first, bool last) {
      step.add = !first;
      if (last) step.block_done = finish_to;
      return Gradients(batch, step);
    };
    status.Update(EachMicroBatch({tokens, targets}, pass));
    if (!status.ok()) return status;
    return finish_to(Bucket::kTables);
  }

  absl::StatusOr<Extras> ReadExtras() override {
    float extras[kExtras];
    absl::Status status =
        Download(extras, state_.gradients + layout_.size, kExtras, "the loss");
    if (!status.ok()) return status;
    return Extras{extras[0], extras[1]};
  }

  absl::StatusOr<double> Update(float learning_rate, double norm_max) override {
    absl::Status status =
        KernelStatus(cuda::SumSquares(stream_, state_.sum, state_.square_parts,
                                      state_.gradients, layout_.size),
                     "the gradients' norm");
    double squares = 0;
    status.Update(Download(&squares, state_.sum, 1, "the gradients' norm"));
    if (!status.ok()) return status;
    const double norm = std::sqrt(squares);
    if (!std::isfinite(norm) || norm > norm_max) return norm;
    AdamWPowers powers = powers_;
    const cuda::AdamWNumbers numbers =
        cuda::NextNumbers(optimizer_, norm, learning_rate, powers);
    status = KernelStatus(
        cuda::AdamWStep(stream_, state_.weights, state_.copy, state_.first,
                        state_.second, state_.gradients, state_.pieces, pieces_,
                        numbers),
        "the update");
    if (!status.ok()) return status;
    powers_ = powers;
    return norm;
  }

  absl::StatusOr<double> Loss(absl::Span<const Token> tokens,
                              absl::Span<const Token> targets) override {
    if (tokens.empty()) return 0.0;
    absl::Status status = EachMicroBatch(
        {tokens, targets}, [&](const Batch& batch, bool first, bool) {
          absl::Status uploaded = UploadBatch(batch);
          if (!uploaded.ok()) return uploaded;
          return GptPasses(config_, layout_, state_, stream_, *products_)
              .Loss(activations_, batch.rows(), !first);
        });
    double loss = 0;
    status.Update(Download(&loss, state_.sum, 1, "the loss"));
    if (!status.ok()) return status;
    return loss;
  }

  absl::Span<float> state(StatePart part) override {
    switch (part) {
      case StatePart::kWeights:
        return {state_.weights, layout_.size};
      case StatePart::kFirstMoment:
        return {state_.first, layout_.size};
      case StatePart::kSecondMoment:
        return {state_.second, layout_.size};
    }
    return {};
  }
  absl::Status WeightsChanged() override {
    return KernelStatus(cuda::CopyWeights(stream_, state_.copy, state_.weights,
                                          state_.pieces, pieces_),
                        "the weights' bf16 copy");
  }
  absl::Status CopyOut(StatePart part, absl::Span<float> host) override {
    return Download(host.data(), state(part).data(), layout_.size,
                    "the model's state");
  }
  absl::Status CopyIn(StatePart part, absl::Span<const float> host) override {
    absl::Status status = Upload(state(part).data(), host.data(), layout_.size);
    status.Update(device_.Synchronize("the model's state"));
    return status;
  }
  std::shared_ptr<void> Pin(absl::Span<float> host) override {
    return device_.Pin(host.data(), host.size() * sizeof(float));
  }
  absl::StatusOr<uint64_t> Fingerprint() override {
    absl::Status status;
    uint64_t part_begin = 0;
    for (const StatePart part : kStateParts) {
      status.Update(KernelStatus(
          cuda::Fingerprint(stream_, state_.fingerprint,
                            state_.fingerprint_parts, state(part).data(),
                            layout_.size, part_begin, part_begin != 0),
          "the state's fingerprint"));
      part_begin += kFingerprintPairsMax;
    }
    uint64_t fingerprint = 0;
    status.Update(Download(&fingerprint, state_.fingerprint, 1,
                           "the state's fingerprint"));
    if (!status.ok()) return status;
    return fingerprint;
  }
  AdamWPowers& powers() override { return powers_; }

 private:
  struct Batch {
    absl::Span<const Token> tokens, targets;
    int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
  };

  // Calls `pass(micro-batch, is first, is last)` for each micro-batch of as
  // many sequences as were reserved, up to an error.
  template <typename Pass>
  absl::Status EachMicroBatch(const Batch& all, const Pass& pass) const {
    CHECK_EQ(all.tokens.size(), all.targets.size());
    CHECK_EQ(all.tokens.size() % config_.context, 0u);
    CHECK(sequences_ > 0 || all.tokens.empty());
    const size_t size = size_t(sequences_) * config_.context;
    for (size_t at = 0; at < all.tokens.size(); at += size) {
      const Batch batch = {all.tokens.subspan(at, size),
                           all.targets.subspan(at, size)};
      absl::Status status =
          pass(batch, at == 0, at + size >= all.tokens.size());
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Gradients(const Batch& batch, GptPasses::Step& step) {
    step.rows = batch.rows();
    index_.Sort(batch.tokens);
    step.words = static_cast<int64_t>(index_.places.size());
    absl::Status status = UploadBatch(batch);
    status.Update(
        Upload(activations_.order, index_.order.data(), batch.tokens.size()));
    status.Update(
        Upload(activations_.places, index_.places.data(), step.words));
    if (!status.ok()) return status;
    return GptPasses(config_, layout_, state_, stream_, *products_)
        .LossAndGradients(activations_, step);
  }

  // An empty share of the batch has zero gradients, but its stop flag counts.
  absl::Status NoGradients(bool stop) {
    absl::Status status =
        Zero(state_.gradients, (layout_.size + kExtras) * sizeof(float));
    status.Update(KernelStatus(
        cuda::SumLosses(stream_, state_.sum, state_.gradients + layout_.size,
                        nullptr, 0, 0, stop ? 1.0f : 0.0f),
        "the loss of no samples"));
    return status;
  }

  // RESOURCE_EXHAUSTED: `bytes` are not available, after `freed` is given back.
  absl::Status Afford(size_t bytes, size_t freed, int sequences) {
    const absl::StatusOr<size_t> free = device_.FreeBytes();
    if (!free.ok()) return free.status();
    if (bytes + kSpareBytes <= *free + freed) return absl::OkStatus();
    const std::string what =
        sequences == 0
            ? "the model's weights and moments need"
            : absl::StrCat("activations of ", Counted(sequences, "sample"),
                           " at once need");
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s %.1f GB and %.1f GB reserve, %s has %.1f GB free; lower "
        "%s--context or --width, or take more ranks",
        what, bytes / kGb, kSpareBytes / kGb, device_.description(),
        (*free + freed) / kGb, sequences == 0 ? "" : "--micro-batch, "));
  }

  void PlaceActivations() {
    Arena arena(activation_memory_.get());
    if (sequences_ == 0) return;
    activations_.Place(config_, int64_t{sequences_} * config_.context, arena);
  }

  absl::Status UploadBatch(const Batch& batch) {
    absl::Status status =
        Upload(activations_.tokens, batch.tokens.data(), batch.tokens.size());
    status.Update(Upload(activations_.targets, batch.targets.data(),
                         batch.targets.size()));
    return status;
  }

  absl::Status Zero(void* memory, size_t bytes) {
    return KernelStatus(cuda::Zero(stream_, memory, bytes), "zeros");
  }
  template <typename T>
  absl::Status Upload(T* device, const T* host, size_t count) {
    return device_.Upload(device, host, count * sizeof(T),
                          "what the model is given");
  }
  template <typename T>
  absl::Status Download(T* host, const T* device, size_t count,
                        absl::string_view purpose) {
    return device_.Download(host, device, count * sizeof(T), purpose);
  }

  const GptConfig config_;
  const GptLayout layout_;
  const std::vector<Bucket> buckets_;
  const AdamWConfig optimizer_;
  CudaDevice& device_;
  const cuda::Stream stream_;
  DeviceMemory state_memory_, activation_memory_;
  GptState state_{};
  GptActivations activations_{};
  std::unique_ptr<Products> products_;
  cuda::TokenIndex index_;
  int64_t pieces_ = 0;
  size_t activations_peak_ = 0;  // In bytes.
  int sequences_ = 0;
  AdamWPowers powers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(
    const GptConfig& config, const AdamWConfig& optimizer, CudaDevice& device) {
  if (absl::Status s = CheckShape(config); !s.ok()) return s;
  auto backend = std::make_unique<CudaBackend>(config, optimizer, device);
  if (absl::Status s = backend->Open(); !s.ok()) return s;
  return backend;
}

}  // namespace rollcall
