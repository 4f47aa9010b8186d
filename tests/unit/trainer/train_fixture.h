// A small training of a few steps, for tests of TrainLoop.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_TRAIN_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_TRAIN_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/trainer/files.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/rank/options.h"
#include "trainer/train_loop.h"

namespace rollcall {

class TrainTest : public Files {
 protected:
  TrainTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox, number ";
    options_.data = {Write("text", text)};
    options_.model = {2, 2, 16, 16};
    options_.batch = 7;  // Shares of two and three ranks differ in size.
    options_.steps = 6;
    options_.warmup = 2;
    options_.learning_rate = 1e-2f;
  }

  struct Course {
    std::vector<double> losses;
    std::vector<float> weights;
  };

  // Does all steps of one rank.
  static void Train(const TrainOptions& options, Collective& collective,
                    Course* course) {
    auto loop = TrainLoop::Create(options);
    ASSERT_TRUE(loop.ok()) << loop.status();
    const absl::Status entered = (*loop)->Enter(collective, {});
    ASSERT_TRUE(entered.ok()) << entered;
    for (int i = 0; i < options.steps; ++i) {
      auto result = (*loop)->Step();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->step, i + 1);
      course->losses.push_back(result->loss);
    }
    const auto weights = (*loop)->backend().state(StatePart::kWeights);
    course->weights.assign(weights.begin(), weights.end());
  }

  // Runs `body(rank, collective)` on one thread per rank, over Gloo.
  template <typename Body>
  static void ForEachRank(int ranks, Body body) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> collective) {
      body(collective->rank(), *collective);
      EXPECT_TRUE(collective->Finish().ok());
    });
  }

  TrainOptions options_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_TRAIN_FIXTURE_H_
