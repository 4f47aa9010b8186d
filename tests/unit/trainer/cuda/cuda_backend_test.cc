// The whole CUDA backend on a device that is emulated on the CPU. emulation.h
// runs the kernels, and loops compute the matrix products. Not covered:
// cuBLASLt, CUDA's runtime and speed.
//
// The tolerances are those of cuda_test.cc, which runs on a GPU.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "trainer/cuda/cuda.h"
#include "trainer/cuda/gpt_memory.h"
#include "trainer/cuda/gpt_passes.h"
#include "trainer/cuda/kernels/emulation.h"
#include "trainer/cuda/token_places.h"

namespace rollcall {
namespace {

constexpr double kLoss = 2e-3;
constexpr double kGradient = 3e-2;

// Computes matrix products by loops, and epilogues by the kernels that replace
// those of cuBLASLt.
class LoopProducts final : public Products {
 public:
  absl::Status Multiply(const Product& p) override {
    if (p.epilogue != Epilogue::kNone) {
      return MultiplyInSteps(*this, nullptr, p);
    }
    // cuBLAS refuses rows that overlap.
    EXPECT_GE(p.a_stride, p.transpose_a ? p.m : p.k);
    EXPECT_GE(p.b_stride, p.transpose_b ? p.k : p.n);
    EXPECT_GE(p.out_stride, p.n);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          sum +=
              double(cuda::ToFloat(p.transpose_a ? p.a[l * p.a_stride + i]
                                                 : p.a[i * p.a_stride + l])) *
              cuda::ToFloat(p.transpose_b ? p.b[j * p.b_stride + l]
                                          : p.b[l * p.b_stride + j]);
        }
        const int64_t at = i * p.out_stride + j;
        if (p.floats) {
          if (p.add != nullptr) sum += static_cast<const float*>(p.add)[at];
          static_cast<float*>(p.out)[at] = static_cast<float>(sum);
        } else {
          if (p.add != nullptr) {
            sum += cuda::ToFloat(static_cast<const cuda::Bf16*>(p.add)[at]);
          }
          static_cast<cuda::Bf16*>(p.out)[at] =
              cuda::ToBf16(static_cast<float>(sum));
        }
      }
    }
    return absl::OkStatus();
  }
};

TEST(LoopProducts, RowsThatOverlapAreReported) {
  const struct {
    const char* what;
    bool transpose_a, transpose_b;
    int a_stride, b_stride, out_stride;
    const char* reported;  // Empty: nothing is.
  } kRows[] = {
      {"as they are", false, false, 4, 3, 3, ""},
      {"both transposed", true, true, 2, 4, 3, ""},
      {"a", false, false, 3, 3, 3, "p.a_stride"},
      {"a transposed", true, false, 1, 3, 3, "p.a_stride"},
      {"b", false, false, 4, 2, 3, "p.b_stride"},
      {"b transposed", false, true, 4, 3, 3, "p.b_stride"},
      {"out", false, false, 4, 3, 2, "p.out_stride"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.what);
    std::vector<cuda::Bf16> a(16), b(16), out(16);
    Product p;
    p.m = 2;
    p.n = 3;
    p.k = 4;
    p.a = a.data();
    p.b = b.data();
    p.out = out.data();
    p.a_stride = row.a_stride;
    p.b_stride = row.b_stride;
    p.out_stride = row.out_stride;
    p.transpose_a = row.transpose_a;
    p.transpose_b = row.transpose_b;
    LoopProducts products;
    if (row.reported[0] == '\0') {
      EXPECT_TRUE(products.Multiply(p).ok());
    } else {
      EXPECT_NONFATAL_FAILURE((void)products.Multiply(p), row.reported);
    }
  }
}

// The device's memory is host memory, which is filled with NaN at first. At
// most `memory_max` bytes can be allocated.
class EmulatedDevice final : public CudaDevice {
 public:
  ~EmulatedDevice() override { EXPECT_TRUE(pieces_.empty()); }

  absl::StatusOr<size_t> FreeBytes() override { return memory_max - taken_; }
  absl::StatusOr<void*> Allocate(size_t bytes,
                                 absl::string_view purpose) override {
    if (fail_next) {
      fail_next = false;
      return absl::ResourceExhaustedError(purpose);
    }
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xff, bytes);
    pieces_[memory] = bytes;
    taken_ += bytes;
    return memory;
  }
  void Free(void* memory) override {
    taken_ -= pieces_.at(memory);
    pieces_.erase(memory);
    std::free(memory);
  }
  absl::Status Upload(void* device, const void* host, size_t bytes,
                      absl::string_view) override {
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* host, const void* device, size_t bytes,
                        absl::string_view) override {
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  std::shared_ptr<void> Pin(void*, size_t) override { return nullptr; }
  absl::Status Synchronize(absl::string_view) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Products>> MakeProducts(void*) override {
    return std::make_unique<LoopProducts>();
  }
  std::string name() const override { return "emulated"; }
  std::string description() const override { return "an emulated GPU"; }
  size_t memory_bytes() const override { return memory_max; }

  cuda::Stream compute() const override { return nullptr; }
  cuda::Stream communication() const override { return nullptr; }
  absl::Status CommunicationAfterCompute() override { return absl::OkStatus(); }
  absl::Status ComputeAfterCommunication() override { return absl::OkStatus(); }
  absl::StatusOr<bool> ComputeIsDone() override { return true; }
  absl::StatusOr<bool> CommunicationIsDone() override { return true; }
  absl::Status Count(Counter) override { return absl::OkStatus(); }
  uint64_t Begun(Counter) const override { return 0; }
  uint64_t Counted(Counter) const override { return 0; }
  bool IsOnDevice(const void*) const override { return false; }
  absl::StatusOr<char*> Room(size_t) override { return nullptr; }
  absl::Status CopyIn(char*, absl::Span<const char>) override {
    return absl::OkStatus();
  }
  absl::Status CopyOut(absl::Span<char>, const char*) override {
    return absl::OkStatus();
  }

  size_t memory_max = size_t{2} << 30;
  bool fail_next = false;

 private:
  std::map<void*, size_t> pieces_;
  size_t taken_ = 0;
};

GptConfig Small() {
  GptConfig config;
  config.layers = 2;
  config.heads = 2;
  config.width = 48;
  config.context = 9;
  config.vocabulary = 37;
  return config;
}

std::vector<Token> Draw(const GptConfig& config, int sequences, int seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(size_t(sequences) * config.context);
  for (Token& t : tokens) t = random() % config.vocabulary;
  return tokens;
}

struct Result {
  double loss = 0, norm = 0;
  std::vector<float> gradients, weights;
};

// Does one step from the current state.
Result StepOn(Backend& backend, int sequences, int seed, bool stop = false) {
  Result result;
  const auto tokens = Draw(backend.config(), sequences, 2 * seed);
  const auto targets = Draw(backend.config(), sequences, 2 * seed + 1);
  const size_t size = backend.layout().size;
  size_t end = size + kExtras;
  const absl::Status status = backend.LossAndGradients(
      tokens, targets, 1.0f / tokens.size(), stop, [&](const Bucket& bucket) {
        EXPECT_EQ(bucket.end, end);
        end = bucket.begin;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(end, 0u);
  const auto extras = backend.ReadExtras();
  EXPECT_EQ(extras->stops, stop ? 1 : 0);
  result.loss = extras->loss;
  const absl::Span<float> gradients = backend.gradients();
  result.gradients.assign(gradients.begin(), gradients.begin() + size);
  const auto norm = backend.Update(1e-2f, kAnyNorm);
  EXPECT_TRUE(norm.ok()) << norm.status();
  result.norm = *norm;
  result.weights.resize(size);
  EXPECT_TRUE(
      backend.CopyOut(StatePart::kWeights, absl::MakeSpan(result.weights))
          .ok());
  return result;
}

void ExpectTensorsNear(const GptLayout& layout, const std::vector<float>& got,
                       const std::vector<float>& want, double tolerance) {
  for (const Tensor& tensor : layout.tensors) {
    double apart = 0, length = 0;
    for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      apart += std::pow(got[i] - want[i], 2);
      length += std::pow(want[i], 2);
    }
    EXPECT_LE(std::sqrt(apart), tolerance * std::sqrt(length) + 1e-9)
        << tensor.name;
  }
}

class CudaBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    cuda::emulation::downwards = false;
    auto made = MakeCudaBackend(Small(), AdamWConfig(), device_);
    ASSERT_TRUE(made.ok()) << made.status();
    backend_ = *std::move(made);
    ASSERT_TRUE(backend_->Reserve(3).ok());
    ASSERT_TRUE(backend_->Reset(7).ok());
  }

  EmulatedDevice device_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(CudaBackendTest, EqualsTheCpuStepByStep) {
  auto made = MakeCpuBackend(Small(), AdamWConfig());
  ASSERT_TRUE(made.ok());
  Backend& cpu = **made;
  ASSERT_TRUE(cpu.Reserve(3).ok());
  ASSERT_TRUE(cpu.Reset(7).ok());
  for (int step = 0; step < 3; ++step) {
    SCOPED_TRACE(step);
    const int sequences = 3 - step % 2;
    const Result got = StepOn(*backend_, sequences, step, step == 1);
    const Result want = StepOn(cpu, sequences, step, step == 1);
    EXPECT_NEAR(got.loss, want.loss, kLoss * want.loss);
    EXPECT_NEAR(got.norm, want.norm, kGradient * want.norm);
    ExpectTensorsNear(cpu.layout(), got.gradients, want.gradients, kGradient);
    EXPECT_EQ(backend_->powers().beta2, cpu.powers().beta2);
    // Adam's first steps depend on the gradients' signs, which differ where a
    // gradient is almost zero. Both continue from the same state.
    for (const StatePart part : kStateParts) {
      std::vector<float> state(cpu.layout().size);
      ASSERT_TRUE(cpu.CopyOut(part, absl::MakeSpan(state)).ok());
      ASSERT_TRUE(backend_->CopyIn(part, state).ok());
    }
    ASSERT_TRUE(backend_->WeightsChanged().ok());
    EXPECT_EQ(*backend_->Fingerprint(), *cpu.Fingerprint());
    const auto tokens = Draw(Small(), 3, 100);
    const auto targets = Draw(Small(), 3, 101);
    const double loss = *cpu.Loss(tokens, targets);
    EXPECT_NEAR(*backend_->Loss(tokens, targets), loss, kLoss * loss);
  }
}

TEST_F(CudaBackendTest, LossChangesNothingElse) {
  StepOn(*backend_, 2, 1, true);
  const std::vector<float> before(backend_->gradients().begin(),
                                  backend_->gradients().end());
  ASSERT_TRUE(
      backend_->Loss(Draw(Small(), 3, 100), Draw(Small(), 3, 101)).ok());
  EXPECT_TRUE(
      std::equal(before.begin(), before.end(), backend_->gradients().begin()));
  EXPECT_EQ(*backend_->Loss({}, {}), 0);
}

TEST_F(CudaBackendTest, NoSamplesGiveZeros) {
  StepOn(*backend_, 2, 1);
  const Result none = StepOn(*backend_, 0, 1, true);
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(none.norm, 0);
}

TEST_F(CudaBackendTest, GradientsThatAreNotFiniteChangeNothing) {
  const Result before = StepOn(*backend_, 2, 1);
  const AdamWPowers powers = backend_->powers();
  backend_->gradients()[5] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(*backend_->Update(1e-2f, kAnyNorm)));
  // Neither do gradients of a norm that is too high.
  backend_->gradients()[5] = 1000;
  EXPECT_GE(*backend_->Update(1e-2f, 999), 1000);
  EXPECT_EQ(powers.beta1, backend_->powers().beta1);
  std::vector<float> after(before.weights.size());
  ASSERT_TRUE(
      backend_->CopyOut(StatePart::kWeights, absl::MakeSpan(after)).ok());
  EXPECT_TRUE(before.weights == after);
}

TEST_F(CudaBackendTest, ErrorOfTheReceiverEndsTheCall) {
  const auto tokens = Draw(Small(), 1, 1);
  int calls = 0;
  const absl::Status status =
      backend_->LossAndGradients(tokens, tokens, 1, false, [&](const Bucket&) {
        ++calls;
        return absl::AbortedError("the world is over");
      });
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(calls, 1);
}

TEST_F(CudaBackendTest, AnotherBatchKeepsTheState) {
  const Result before = StepOn(*backend_, 3, 1);
  ASSERT_TRUE(backend_->Reserve(1).ok());
  std::vector<float> after(before.weights.size());
  ASSERT_TRUE(
      backend_->CopyOut(StatePart::kWeights, absl::MakeSpan(after)).ok());
  EXPECT_TRUE(before.weights == after);
  StepOn(*backend_, 1, 2);
}

// The share is cut into two micro-batches, of which the last is smaller. Larger
// shares would take long under the emulation.
TEST_F(CudaBackendTest, MicroBatchesAddUpToTheWhole) {
  constexpr int kShare = 3;
  const auto tokens = Draw(Small(), kShare, 100);
  const auto targets = Draw(Small(), kShare, 101);
  ASSERT_TRUE(backend_->Reserve(kShare).ok());
  const Result whole = StepOn(*backend_, kShare, 1, true);
  ASSERT_TRUE(backend_->Reset(7).ok());
  const double loss = *backend_->Loss(tokens, targets);
  std::unique_ptr<Backend> cpu = *MakeCpuBackend(Small(), AdamWConfig());
  ASSERT_TRUE(cpu->Reserve(kShare).ok());
  ASSERT_TRUE(cpu->Reset(7).ok());
  const Result want = StepOn(*cpu, kShare, 1, true);
  ASSERT_TRUE(backend_->Reserve(2).ok());
  ASSERT_TRUE(backend_->Reset(7).ok());
  EXPECT_NEAR(*backend_->Loss(tokens, targets), loss, 1e-6 * loss);
  const Result parts = StepOn(*backend_, kShare, 1, true);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-6 * whole.loss);
  ExpectTensorsNear(backend_->layout(), parts.gradients, whole.gradients, 1e-5);
  ExpectTensorsNear(backend_->layout(), parts.gradients, want.gradients,
                    kGradient);
  ASSERT_TRUE(backend_->Reset(7).ok());
  const Result again = StepOn(*backend_, kShare, 1, true);
  EXPECT_EQ(again.loss, parts.loss);
  EXPECT_TRUE(again.gradients == parts.gradients);
  EXPECT_TRUE(again.weights == parts.weights);
}

// A bucket that was reported as finished does not change. The model is wide, so
// that there is more than one bucket.
TEST(CudaBackendBuckets, AreFinishedInTheLastMicroBatch) {
  cuda::emulation::downwards = false;
  EmulatedDevice device;
  const GptConfig config{2, 4, 320, 3, 16};
  auto made = MakeCudaBackend(config, AdamWConfig(), device);
  ASSERT_TRUE(made.ok()) << made.status();
  Backend& backend = **made;
  ASSERT_EQ(backend.buckets().size(), 3u);
  ASSERT_TRUE(backend.Reserve(1).ok());
  ASSERT_TRUE(backend.Reset(7).ok());
  const auto tokens = Draw(config, 2, 1);
  std::vector<std::pair<Bucket, std::vector<float>>> seen;
  const absl::Status status = backend.LossAndGradients(
      tokens, tokens, 1.0f, true, [&](const Bucket& bucket) {
        const auto now = backend.gradients().subspan(bucket.begin,
                                                     bucket.end - bucket.begin);
        seen.push_back({bucket, {now.begin(), now.end()}});
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen.size(), backend.buckets().size());
  for (const auto& [bucket, values] : seen) {
    EXPECT_TRUE(std::equal(values.begin(), values.end(),
                           backend.gradients().begin() + bucket.begin));
  }
}

TEST_F(CudaBackendTest, RoomIsWhatReserveCanTake) {
  const double room = *backend_->RoomForActivations(1);
  EXPECT_GT(backend_->StateBytes(), 16.0 * backend_->layout().size);
  int fits = 1;
  while (backend_->ActivationBytes(2 * fits) <= room) fits *= 2;
  EXPECT_TRUE(backend_->Reserve(fits).ok());
  EXPECT_EQ(*backend_->RoomForActivations(1), room);
  EXPECT_TRUE(absl::IsResourceExhausted(backend_->Reserve(2 * fits)));
}

TEST_F(CudaBackendTest, TooLargeABatchIsRefusedAndChangesNothing) {
  const absl::Status status = backend_->Reserve(1000000);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  for (const char* word :
       {"1000000 samples", "an emulated GPU", "--micro-batch"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << status;
  }
  StepOn(*backend_, 3, 1);
  // Reserve also fails if enough memory seems free, but not in one piece.
  device_.fail_next = true;
  EXPECT_TRUE(absl::IsResourceExhausted(backend_->Reserve(4)));
  StepOn(*backend_, 3, 2);
  EXPECT_TRUE(backend_->Reserve(4).ok());
  StepOn(*backend_, 4, 3);
}

TEST(CudaBackendLimits, AreReported) {
  EmulatedDevice device;
  GptConfig config = Small();
  config.width = 52;  // Each head has 26.
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeCudaBackend(config, AdamWConfig(), device).status()));
  config.width = 2 * 136;
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeCudaBackend(config, AdamWConfig(), device).status()));
  config.width = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeCudaBackend(config, AdamWConfig(), device).status()));
  device.memory_max = 1000;
  EXPECT_TRUE(absl::IsResourceExhausted(
      MakeCudaBackend(Small(), AdamWConfig(), device).status()));
}

// The logits are computed in one chunk, or in several of which the last is
// smaller.
TEST(GptPassesTest, ChunksOfLogitsMakeNoDifference) {
  const GptConfig config = Small();
  const GptLayout layout(config);
  constexpr int kSequences = 3;
  const auto tokens = Draw(config, kSequences, 1);
  const auto targets = Draw(config, kSequences, 2);
  cuda::TokenIndex index;
  index.Sort(tokens);
  const auto pieces = cuda::CutPieces(layout);
  std::vector<float> gradients[2];
  for (const bool chunked : {false, true}) {
    GptState state{};
    GptActivations a{};
    Arena counted;
    state.Place(layout, pieces.size(), counted);
    a.Place(config, tokens.size(), counted);
    std::vector<char> memory(counted.bytes() + 256);
    Arena arena(memory.data() + 256 -
                reinterpret_cast<uintptr_t>(memory.data()) % 256);
    state.Place(layout, pieces.size(), arena);
    a.Place(config, tokens.size(), arena);
    if (chunked) a.chunk = 7;
    InitializeWeights(config, layout, 1, {state.weights, layout.size});
    cuda::CopyWeights(nullptr, state.copy, state.weights, pieces.data(),
                      pieces.size());
    std::copy(tokens.begin(), tokens.end(), a.tokens);
    std::copy(targets.begin(), targets.end(), a.targets);
    std::copy(index.order.begin(), index.order.end(), a.order);
    std::copy(index.places.begin(), index.places.end(), a.places);
    LoopProducts products;
    GptPasses::Step step;
    step.rows = tokens.size();
    step.words = index.places.size();
    step.scale = 0.1f;
    step.block_done = [](int) { return absl::OkStatus(); };
    ASSERT_TRUE(GptPasses(config, layout, state, nullptr, products)
                    .LossAndGradients(a, step)
                    .ok());
    gradients[chunked].assign(state.gradients,
                              state.gradients + layout.size + kExtras);
  }
  EXPECT_EQ(gradients[0][layout.size], gradients[1][layout.size]);
  ExpectTensorsNear(layout, gradients[1], gradients[0], 1e-5);
}

}  // namespace
}  // namespace rollcall
