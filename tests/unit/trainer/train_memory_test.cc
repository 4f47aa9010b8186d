// How a rank plans and takes memory: micro-batches, and buffers of checkpoints.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/trainer/train_fixture.h"
#include "tests/unit/trainer/wrapped_backend.h"
#include "trainer/collective/single.h"

namespace rollcall {
namespace {

// The buffers of a checkpoint are pinned once, and keep their place.
class Pinning final : public WrappedBackend {
 public:
  Pinning(std::unique_ptr<Backend> cpu, std::vector<const float*>* pinned)
      : WrappedBackend(std::move(cpu)), pinned_(pinned) {}
  std::shared_ptr<void> Pin(absl::Span<float> host) override {
    pinned_->push_back(host.data());
    return {pinned_, [](std::vector<const float*>* p) { p->pop_back(); }};
  }

 private:
  std::vector<const float*>* const pinned_;
};

TEST_F(TrainTest, CopiesForCheckpointsGoToPinnedMemory) {
  std::vector<const float*> pinned;
  auto loop = TrainLoop::Create(
      options_,
      [&](const GptConfig& model, const AdamWConfig& optimizer)
          -> absl::StatusOr<std::unique_ptr<Backend>> {
        return std::make_unique<Pinning>(*MakeCpuBackend(model, optimizer),
                                         &pinned);
      });
  ASSERT_TRUE(loop.ok()) << loop.status();
  SingleCollective single;
  ASSERT_TRUE((*loop)->Enter(single, {}).ok());
  {
    StateTensors tensors;
    for (int save = 0; save < 2; ++save) {
      ASSERT_TRUE((*loop)->CopyOut(&tensors).ok());
      EXPECT_EQ(pinned, (std::vector<const float*>{tensors.weights.data(),
                                                   tensors.first.data(),
                                                   tensors.second.data()}));
    }
  }
  EXPECT_TRUE(pinned.empty());
}

// The CPU's backend, whose first sum takes memory as on a GPU.
class LikeGpu final : public WrappedBackend {
 public:
  struct Noted {
    // How many sums the world had begun when memory was asked for.
    uint64_t begun = 0;
    int reserved = 0;
  };

  LikeGpu(std::unique_ptr<Backend> cpu, const Collective& collective,
          Noted* noted)
      : WrappedBackend(std::move(cpu)),
        collective_(collective),
        noted_(noted) {}

  bool FirstSumTakesMemory() const override { return true; }
  absl::StatusOr<double> RoomForActivations(int ranks_here) override {
    noted_->begun = collective_.seen().entered;
    return WrappedBackend::RoomForActivations(ranks_here);
  }
  absl::Status Reserve(int sequences) override {
    noted_->reserved = sequences;
    return WrappedBackend::Reserve(sequences);
  }

 private:
  const Collective& collective_;
  Noted* const noted_;
};

TrainLoop::MakeBackend MakeLikeGpu(const Collective& collective,
                                   LikeGpu::Noted& noted) {
  return [&](const GptConfig& model, const AdamWConfig& optimizer)
             -> absl::StatusOr<std::unique_ptr<Backend>> {
    return std::make_unique<LikeGpu>(*MakeCpuBackend(model, optimizer),
                                     collective, &noted);
  };
}

// On GPUs, memory is planned after the ranks have agreed on their settings and
// have summed once. The plan is reported before the memory is taken.
TEST_F(TrainTest, MemoryIsPlannedAfterAWarmUp) {
  ForEachRank(2, [&](int, Collective& collective) {
    LikeGpu::Noted noted;
    auto loop = TrainLoop::Create(options_, MakeLikeGpu(collective, noted));
    ASSERT_TRUE(loop.ok()) << loop.status();
    std::vector<MemoryPlan> plans;
    (*loop)->WhenPlanned([&](const MemoryPlan& plan) {
      plans.push_back(plan);
      EXPECT_EQ(noted.begun, 2u);
      EXPECT_EQ(noted.reserved, 1);
    });
    ASSERT_TRUE((*loop)->Enter(collective, {}).ok());
    ASSERT_EQ(plans.size(), 1u);
    EXPECT_EQ(plans[0].share, 4);  // Four of seven samples.
    EXPECT_EQ(plans[0].micro_batch, 4);
    EXPECT_EQ(plans[0].state, (*loop)->backend().StateBytes());
  });
}

// A memory limit or a wish changes how the share is computed, but not the
// result.
TEST_F(TrainTest, MicroBatchesDoNotMatter) {
  options_.model.context = 600;  // A unit is two samples.
  std::string text;
  for (int i = 0; i < 300; ++i) text += "the quick brown fox, number ";
  options_.data = {Write("long", text)};
  options_.steps = 2;
  SingleCollective single;
  Course whole;
  Train(options_, single, &whole);
  auto loop = TrainLoop::Create(options_);
  ASSERT_TRUE(loop.ok()) << loop.status();
  const Backend& backend = (*loop)->backend();
  TrainOptions limited = options_;
  limited.memory_max = backend.StateBytes() + backend.ActivationBytes(4);
  TrainOptions wished = options_;
  wished.micro_batch = 2;
  for (const TrainOptions& options : {limited, wished}) {
    Course parts;
    Train(options, single, &parts);
    EXPECT_EQ(parts.losses, whole.losses);
    EXPECT_EQ(parts.weights, whole.weights);
    // Memory for the whole share would not be there.
    LikeGpu::Noted noted;
    auto planned = TrainLoop::Create(options, MakeLikeGpu(single, noted));
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_TRUE((*planned)->Enter(single, {}).ok());
    EXPECT_EQ(noted.reserved, options.micro_batch == 0 ? 4 : 2);
  }
  limited.micro_batch = 7;
  auto refused = TrainLoop::Create(limited);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_TRUE(absl::IsResourceExhausted((*refused)->Enter(single, {})));
}

}  // namespace
}  // namespace rollcall
