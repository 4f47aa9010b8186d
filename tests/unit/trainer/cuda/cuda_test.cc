// The CUDA backend on a GPU, compared with the CPU's.
#include "trainer/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "tests/unit/trainer/cuda/on_gpu.h"
#include "trainer/model/memory_plan.h"

namespace rollcall {
namespace {

constexpr double kGradient = 3e-2;

GptConfig Gpt2Like() {
  GptConfig config;
  config.layers = 2;
  config.heads = 12;
  config.width = 768;
  config.context = 200;  // Not a multiple of any tile.
  config.vocabulary = 50257;
  return config;
}

struct Result {
  double loss = 0, norm = 0;
  std::vector<float> gradients, weights;
};

// Does one step from the seed's weights, with at most `at_once` sequences in a
// micro-batch (0: all of them).
Result StepOn(Backend& backend, int sequences, int at_once = 0) {
  Result result;
  const GptConfig& config = backend.config();
  EXPECT_TRUE(backend.Reserve(at_once == 0 ? sequences : at_once).ok());
  EXPECT_TRUE(backend.Reset(7).ok());
  const auto tokens = Draw(config, sequences, 1);
  const auto targets = Draw(config, sequences, 2);
  size_t end = backend.layout().size + kExtras;
  const absl::Status status = backend.LossAndGradients(
      tokens, targets, 1.0f / tokens.size(), true, [&](const Bucket& bucket) {
        EXPECT_EQ(bucket.end, end);
        end = bucket.begin;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(end, 0u);
  const auto extras = backend.ReadExtras();
  EXPECT_TRUE(extras.ok()) << extras.status();
  EXPECT_EQ(extras->stops, 1);
  result.loss = extras->loss;
  const auto norm = backend.Update(1e-3f, kAnyNorm);
  EXPECT_TRUE(norm.ok()) << norm.status();
  result.norm = *norm;
  result.weights.resize(backend.layout().size);
  EXPECT_TRUE(
      backend.CopyOut(StatePart::kWeights, absl::MakeSpan(result.weights))
          .ok());
  // After the first step, the first moment is the gradient, clipped and scaled.
  result.gradients.resize(backend.layout().size);
  EXPECT_TRUE(
      backend.CopyOut(StatePart::kFirstMoment, absl::MakeSpan(result.gradients))
          .ok());
  return result;
}

void ExpectEqualsCpu(const GptConfig& config, int sequences) {
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(config, AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  auto cpu = MakeCpuBackend(config, AdamWConfig());
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const Result got = StepOn(**cuda, sequences);
  const Result want = StepOn(**cpu, sequences);
  EXPECT_NEAR(got.loss, want.loss, kLoss * want.loss);
  EXPECT_NEAR(got.norm, want.norm, kGradient * want.norm);
  // Compares each tensor by itself, because an error in a small tensor would
  // not show in the whole.
  for (const Tensor& tensor : (*cpu)->layout().tensors) {
    double apart = 0, length = 0;
    for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      apart += std::pow(got.gradients[i] - want.gradients[i], 2);
      length += std::pow(want.gradients[i], 2);
    }
    EXPECT_LE(std::sqrt(apart), kGradient * std::sqrt(length) + 1e-9)
        << tensor.name;
  }
  const auto tokens = Draw(config, sequences, 1);
  const auto targets = Draw(config, sequences, 2);
  const auto after = (*cuda)->Loss(tokens, targets);
  const auto want_after = (*cpu)->Loss(tokens, targets);
  ASSERT_TRUE(after.ok() && want_after.ok()) << after.status();
  EXPECT_NEAR(*after, *want_after, kLoss * *want_after);

  // A repetition gives the same bits.
  const Result again = StepOn(**cuda, sequences);
  EXPECT_EQ(again.loss, got.loss);
  EXPECT_TRUE(again.weights == got.weights);
}

TEST(CudaBackendTest, EqualsTheCpuOnNano) {
  SKIP_WITHOUT_GPU();
  ExpectEqualsCpu(Nano(), 5);
}

TEST(CudaBackendTest, EqualsTheCpuOnASizeLikeGpt2) {
  SKIP_WITHOUT_GPU();
  ExpectEqualsCpu(Gpt2Like(), 2);
}

TEST(CudaBackendTest, NoSamplesGiveZeros) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(Nano(), AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  ASSERT_TRUE((*cuda)->Reserve(1).ok());
  ASSERT_TRUE((*cuda)->Reset(1).ok());
  ASSERT_TRUE(
      (*cuda)
          ->LossAndGradients({}, {}, 1, true,
                             [](const Bucket&) { return absl::OkStatus(); })
          .ok());
  EXPECT_EQ((*cuda)->ReadExtras()->stops, 1);
  EXPECT_EQ((*cuda)->ReadExtras()->loss, 0);
  EXPECT_EQ(*(*cuda)->Update(1e-3f, kAnyNorm), 0);
}

// Compares micro-batches, of which the last is smaller, with the CPU and with a
// step without micro-batches.
void ExpectMicroBatchesAddUp(const GptConfig& config, int sequences) {
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(config, AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  auto cpu = MakeCpuBackend(config, AdamWConfig());
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const Result want = StepOn(**cpu, sequences);
  const Result whole = StepOn(**cuda, sequences);
  const auto tokens = Draw(config, sequences, 3);
  const auto targets = Draw(config, sequences, 4);
  for (int at_once : {1, 2, sequences - 1}) {
    SCOPED_TRACE(at_once);
    const Result got = StepOn(**cuda, sequences, at_once);
    EXPECT_NEAR(got.loss, want.loss, kLoss * want.loss);
    EXPECT_NEAR(got.loss, whole.loss, 1e-4 * whole.loss);
    for (const Tensor& tensor : (*cpu)->layout().tensors) {
      double apart = 0, length = 0;
      for (size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
        apart += std::pow(got.gradients[i] - want.gradients[i], 2);
        length += std::pow(want.gradients[i], 2);
      }
      EXPECT_LE(std::sqrt(apart), kGradient * std::sqrt(length) + 1e-9)
          << tensor.name;
    }
    const auto loss = (*cuda)->Loss(tokens, targets);
    ASSERT_TRUE(loss.ok()) << loss.status();
    // The same micro-batches give the same bits again.
    const Result again = StepOn(**cuda, sequences, at_once);
    EXPECT_EQ(again.loss, got.loss);
    EXPECT_TRUE(again.gradients == got.gradients);
    EXPECT_TRUE(again.weights == got.weights);
    EXPECT_EQ(*(*cuda)->Loss(tokens, targets), *loss);
  }
}

TEST(CudaBackendTest, MicroBatchesAddUpOnNano) {
  SKIP_WITHOUT_GPU();
  ExpectMicroBatchesAddUp(Nano(), 5);
}

TEST(CudaBackendTest, MicroBatchesAddUpOnASizeLikeGpt2) {
  SKIP_WITHOUT_GPU();
  ExpectMicroBatchesAddUp(Gpt2Like(), 4);
}

// A share that is larger than the memory is trained in the micro-batches that
// the plan finds. The memory for this many sequences can be reserved.
TEST(CudaBackendTest, AMicroBatchOfWhatFitsCanBeReserved) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(Gpt2Like(), AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  const auto room = (*cuda)->RoomForActivations(1);
  ASSERT_TRUE(room.ok()) << room.status();
  MemoryWishes wishes;
  wishes.share = 1000000;
  MemoryFacts facts;
  facts.state = (*cuda)->StateBytes();
  facts.room = *room;
  facts.activations = [&](int n) { return (*cuda)->ActivationBytes(n); };
  const auto plan = PlanMemory(wishes, facts);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::printf("%s\n", plan->ToString().c_str());
  EXPECT_GT(plan->micro_batch, 1);
  EXPECT_LT(plan->micro_batch, wishes.share);
  EXPECT_TRUE((*cuda)->Reserve(plan->micro_batch).ok());
  // Under a limit that fits only one sequence, a share of four takes four
  // micro-batches.
  wishes.share = 4;
  wishes.most = facts.state + 1.5 * (*cuda)->ActivationBytes(1);
  const auto limited = PlanMemory(wishes, facts);
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ(limited->micro_batch, 1);
  StepOn(**cuda, 4, limited->micro_batch);
}

TEST(CudaBackendTest, TooLargeABatchIsRefusedAndChangesNothing) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  auto cuda = MakeCudaBackend(Nano(), AdamWConfig(), **device);
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  const Result before = StepOn(**cuda, 3);
  EXPECT_TRUE(absl::IsResourceExhausted((*cuda)->Reserve(10000000)));
  const Result after = StepOn(**cuda, 3);
  EXPECT_EQ(before.loss, after.loss);
}

// --- Counters ---------------------------------------------------------------

// A device that is held up in `communication` has not reached the later work.
TEST(CudaDeviceTest, CountsWhatItHasComeTo) {
  SKIP_WITHOUT_GPU();
  auto device = CudaDevice::Choose(0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_TRUE((*device)->Count(Counter::kEntered).ok());
  std::promise<void> go_on;
  const auto wait = [](void* promise) {
    static_cast<std::promise<void>*>(promise)->get_future().wait();
  };
  ASSERT_EQ(cudaLaunchHostFunc((*device)->communication(), wait, &go_on), 0);
  ASSERT_TRUE((*device)->Count(Counter::kEntered).ok());
  ASSERT_TRUE((*device)->Count(Counter::kLeft).ok());
  EXPECT_EQ((*device)->Begun(Counter::kEntered), 2u);
  EXPECT_LE((*device)->Counted(Counter::kEntered), 1u);
  EXPECT_EQ((*device)->Counted(Counter::kLeft), 0u);
  go_on.set_value();
  ASSERT_EQ(cudaStreamSynchronize((*device)->communication()), 0);
  EXPECT_EQ((*device)->Counted(Counter::kEntered), 2u);
  EXPECT_EQ((*device)->Counted(Counter::kLeft), 1u);
}

// --- Without a GPU -----------------------------------------------------------

TEST(CudaAvailableTest, SaysWhatIsMissing) {
  const absl::Status status = CudaAvailable();
  if (status.ok()) GTEST_SKIP() << "nothing is missing here";
  std::printf("%s\n", std::string(status.message()).c_str());
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(CudaDevice::Choose(0).status(), status);
}

}  // namespace
}  // namespace rollcall
