#include "trainer/steps/spike_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/trainer/files.h"
#include "tests/unit/trainer/ranks.h"
#include "tests/unit/trainer/wrapped_backend.h"
#include "trainer/collective/single.h"
#include "trainer/train_loop.h"

namespace rollcall {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::vector<double> Times(int count, double norm) {
  return std::vector<double>(count, norm);
}

std::vector<double> Counting(int from, int to) {
  std::vector<double> norms;
  for (int i = from; i <= to; ++i) norms.push_back(i);
  return norms;
}

TEST(SpikeGuard, TheLargestNorm) {
  const struct {
    const char* what;
    double factor;
    std::vector<double> norms;
    double expect;
  } kRows[] = {
      {"nothing to judge by", 3, {}, kInfinite},
      {"one too few", 3, Times(SpikeGuard::kJudgedFrom - 1, 2), kInfinite},
      {"enough", 3, Times(SpikeGuard::kJudgedFrom, 2), 6},
      {"off", 0, Times(SpikeGuard::kJudgedFrom, 2), kInfinite},
      {"the median, not the mean", 2, Counting(1, 33), 34},
      {"the lower one of an even number", 2, Counting(1, 34), 34},
      // 73 to 200 remain.
      {"the oldest are forgotten", 1, Counting(1, 200), 136},
      {"gradients of zero", 3, Times(40, 0), kInfinite},
  };
  for (const auto& row : kRows) {
    SpikeGuard guard(row.factor);
    for (double norm : row.norms) guard.Took(norm);
    EXPECT_EQ(guard.norm_max(), row.expect) << row.what;
    // A guard that takes over what this one remembers decides alike.
    SpikeGuard other(row.factor);
    other.set_state(guard.state());
    EXPECT_EQ(other.norm_max(), row.expect) << row.what;
  }
}

TEST(SpikeGuard, SkippedStepsAreNoNormsAndAreCounted) {
  SpikeGuard guard(3);
  for (double norm : Times(20, 2)) guard.Took(norm);
  for (int i = 0; i < 3; ++i) guard.Skipped();
  EXPECT_EQ(guard.norm_max(), 6);
  EXPECT_EQ(guard.state().skipped, 3);
  EXPECT_EQ(guard.state().skipped_in_a_row, 3);
  guard.Took(2);
  guard.Skipped();
  EXPECT_EQ(guard.state().skipped, 4);
  EXPECT_EQ(guard.state().skipped_in_a_row, 1);
}

TEST(SpikeGuard, Reasons) {
  SpikeGuard guard(3);
  for (double norm : Times(20, 2)) guard.Took(norm);
  EXPECT_EQ(guard.Reason(NAN, NAN), "loss nan");
  EXPECT_EQ(guard.Reason(1.5, kInfinite),
            "loss 1.5 with a gradient of norm inf");
  EXPECT_EQ(guard.Reason(1.5, 8),
            "a gradient of norm 8, above 3 times 2, the median of the last 20");
}

// A backend whose loss and gradients are multiplied.
class Spiking final : public WrappedBackend {
 public:
  Spiking(std::unique_ptr<Backend> inner, const float* factor)
      : WrappedBackend(std::move(inner)), factor_(factor) {}
  absl::Status LossAndGradients(absl::Span<const Token> tokens,
                                absl::Span<const Token> targets, float scale,
                                bool stop, const Finished& finished) override {
    return WrappedBackend::LossAndGradients(tokens, targets, scale * *factor_,
                                            stop, finished);
  }

 private:
  const float* const factor_;
};

class SpikesTest : public Files {
 protected:
  SpikesTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox, number ";
    options_.data = {Write("text", text)};
    options_.model = {2, 2, 16, 16};
    options_.batch = 7;
    options_.steps = 100;
    options_.warmup = 2;
    options_.skip_spikes = 20;
  }

  std::unique_ptr<TrainLoop> Loop(const float* factor) {
    auto loop = TrainLoop::Create(
        options_,
        [factor](const GptConfig& model, const AdamWConfig& optimizer)
            -> absl::StatusOr<std::unique_ptr<Backend>> {
          return std::make_unique<Spiking>(*MakeCpuBackend(model, optimizer),
                                           factor);
        });
    EXPECT_TRUE(loop.ok()) << loop.status();
    return *std::move(loop);
  }

  struct Seen {
    std::vector<float> weights, first, second;
    double beta1;
    bool operator==(const Seen&) const = default;
  };
  static Seen StateOf(TrainLoop& loop) {
    StateTensors tensors;
    EXPECT_TRUE(loop.CopyOut(&tensors).ok());
    return {tensors.weights, tensors.first, tensors.second,
            loop.backend().powers().beta1};
  }
  static void Train(TrainLoop& loop, int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto result = loop.Step();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->skipped, "");
    }
  }

  TrainOptions options_;
};

TEST_F(SpikesTest, ASkippedStepChangesNothingButThePositionInTheData) {
  float factor = 1;
  SingleCollective single;
  const std::unique_ptr<TrainLoop> loop = Loop(&factor);
  ASSERT_TRUE(loop->Enter(single, {}).ok());
  Train(*loop, SpikeGuard::kJudgedFrom);
  int64_t skipped = 0;
  for (const float spike : {1000.0f, NAN, -1.0f, NAN, 1000.0f}) {
    const Seen before = StateOf(*loop);
    const TrainState state = loop->state();
    factor = spike;
    const auto result = loop->Step();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(loop->steps_done(), state.step + 1);
    EXPECT_FALSE(loop->state().position == state.position);
    if (spike == -1.0f) {  // As large as before, so it is done.
      EXPECT_EQ(result->skipped, "");
      EXPECT_FALSE(StateOf(*loop) == before);
      continue;
    }
    EXPECT_NE(result->skipped, "");
    EXPECT_EQ(result->skipped_steps, ++skipped);
    EXPECT_TRUE(StateOf(*loop) == before) << spike;
    EXPECT_EQ(loop->state().loss, state.loss);
  }
}

TEST_F(SpikesTest, WithoutTheFlagOnlyWhatIsNotFiniteIsAnError) {
  options_.skip_spikes = 0;
  float factor = 1;
  SingleCollective single;
  const std::unique_ptr<TrainLoop> loop = Loop(&factor);
  ASSERT_TRUE(loop->Enter(single, {}).ok());
  Train(*loop, SpikeGuard::kJudgedFrom);
  factor = 1000;
  Train(*loop, 1);
  factor = NAN;
  const Seen before = StateOf(*loop);
  const absl::Status status = loop->Step().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("--lr"), std::string::npos) << status;
  EXPECT_EQ(loop->steps_done(), SpikeGuard::kJudgedFrom + 1);
  EXPECT_TRUE(StateOf(*loop) == before);
}

TEST_F(SpikesTest, ManyInARowAreAnError) {
  float factor = 1;
  SingleCollective single;
  const std::unique_ptr<TrainLoop> loop = Loop(&factor);
  ASSERT_TRUE(loop->Enter(single, {}).ok());
  Train(*loop, SpikeGuard::kJudgedFrom);
  factor = 1000;
  for (int i = 1; i < SpikeGuard::kInARowMax; ++i) {
    const auto result = loop->Step();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NE(result->skipped, "");
    EXPECT_EQ(loop->next_skip_ends(), i == SpikeGuard::kInARowMax - 1);
  }
  const int64_t done = loop->steps_done();
  const absl::Status status = loop->Step().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("--skip-spikes than 20"), std::string::npos)
      << status;
  EXPECT_EQ(loop->steps_done(), done);
  // One that is not skipped ends the row.
  factor = 1;
  Train(*loop, 1);
  factor = 1000;
  EXPECT_TRUE(loop->Step().ok());
}

// The spike is in one rank's share only, and one rank is a newcomer.
TEST_F(SpikesTest, AllRanksOfAWorldDecideAlike) {
  const int kSteps = SpikeGuard::kJudgedFrom + 2;
  std::vector<float> factors(3, 1);
  std::vector<std::unique_ptr<TrainLoop>> loops;
  for (int r = 0; r < 3; ++r) loops.push_back(Loop(&factors[r]));
  ForEachConnected(2, [&](std::unique_ptr<Collective> collective) {
    TrainLoop& loop = *loops[collective->rank()];
    ASSERT_TRUE(loop.Enter(*collective, {}).ok());
    Train(loop, kSteps);
    EXPECT_TRUE(collective->Finish().ok());
  });
  factors[1] = 1000;
  std::vector<std::string> reasons(3);
  std::vector<Seen> states(3);
  ForEachConnected(3, [&](std::unique_ptr<Collective> collective) {
    const int rank = collective->rank();
    TrainLoop& loop = *loops[rank];
    ASSERT_TRUE(loop.Enter(*collective, TrainSource{0, kSteps}).ok());
    const Seen before = StateOf(loop);
    const auto result = loop.Step();
    ASSERT_TRUE(result.ok()) << result.status();
    reasons[rank] = result->skipped;
    states[rank] = StateOf(loop);
    EXPECT_TRUE(states[rank] == before) << "rank " << rank;
    EXPECT_EQ(result->skipped_steps, 1);
    EXPECT_TRUE(collective->Finish().ok());
  });
  EXPECT_NE(reasons[0], "");
  EXPECT_EQ(reasons[1], reasons[0]);
  EXPECT_EQ(reasons[2], reasons[0]);
  EXPECT_TRUE(states[1] == states[0]);
  EXPECT_TRUE(states[2] == states[0]);
}

TEST_F(SpikesTest, AResumedRunJudgesFromNewNorms) {
  float factor = 1;
  SingleCollective single;
  const std::unique_ptr<TrainLoop> loop = Loop(&factor);
  ASSERT_TRUE(loop->Enter(single, {}).ok());
  Train(*loop, SpikeGuard::kJudgedFrom);
  std::optional<StoredState> stored;
  stored.emplace().state = loop->state();
  stored->load = [&](StateTensors* tensors) { return loop->CopyOut(tensors); };
  ASSERT_TRUE(loop->Enter(single, {}, &stored).ok());
  EXPECT_EQ(loop->steps_done(), SpikeGuard::kJudgedFrom);
  factor = 1000;
  Train(*loop, 1);
  // One that is not finite is skipped all the same.
  factor = NAN;
  const auto result = loop->Step();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->skipped, "loss nan");
}

TEST_F(SpikesTest, RanksWithAnotherFactorDoNotTrain) {
  ForEachConnected(2, [&](std::unique_ptr<Collective> collective) {
    TrainOptions options = options_;
    if (collective->rank() == 1) options.skip_spikes = 21;
    auto loop = TrainLoop::Create(options);
    ASSERT_TRUE(loop.ok()) << loop.status();
    const absl::Status status = (*loop)->Enter(*collective, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_TRUE(collective->Finish().ok());
  });
}

}  // namespace
}  // namespace rollcall
