// Ranks with other flags or data do not train together.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/trainer/train_fixture.h"
#include "trainer/collective/single.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

TEST_F(TrainTest, OnlyARankThatDiffersFromTheSourceLeaves) {
  const std::string other = Write("other", std::string(1680, 'x'));
  ForEachRank(3, [&](int r, Collective& collective) {
    TrainOptions options = options_;
    if (r == 1) options.data = {other};
    auto loop = TrainLoop::Create(options);
    ASSERT_TRUE(loop.ok()) << loop.status();
    SingleCollective single;
    if (r != 1) {
      ASSERT_TRUE((*loop)->Enter(single, {}).ok());
    }
    const absl::Status status = (*loop)->Enter(collective, TrainSource{2, 0});
    EXPECT_EQ(status.code(),
              r == 1 ? Code::kFailedPrecondition : Code::kUnavailable)
        << status;
    EXPECT_NE(
        status.message().find("rank 1 and rank 2: the files of --data differ"),
        absl::string_view::npos)
        << status;
    EXPECT_EQ((*loop)->whole(), r != 1);
  });
}

// Without a source, those who are more than half are right.
TEST_F(TrainTest, OnlyARankThatDiffersFromTheMajorityLeaves) {
  for (const int wrong : {0, 1, 2}) {
    SCOPED_TRACE(wrong);
    ForEachRank(3, [&](int r, Collective& collective) {
      TrainOptions options = options_;
      if (r == wrong) options.seed = 2;
      auto loop = TrainLoop::Create(options);
      ASSERT_TRUE(loop.ok()) << loop.status();
      const absl::Status status = (*loop)->Enter(collective, {});
      EXPECT_EQ(status.code(),
                r == wrong ? Code::kFailedPrecondition : Code::kUnavailable);
      EXPECT_EQ(status.message(),
                absl::StrCat("the ranks do not agree, rank ", wrong,
                             " and rank ", wrong == 0 ? 1 : 0,
                             ": --seed 2 and 1; give every node the same"));
    });
  }
}

TEST_F(TrainTest, RanksThatDisagreeDoNotTrain) {
  const std::string other = Write("other", std::string(1680, 'x'));
  struct Row {
    const char* names;
    std::function<void(TrainOptions&)> change;
  };
  const Row kRows[] = {
      {"--lr 0.5 and 0.01;", [](TrainOptions& o) { o.learning_rate = 0.5f; }},
      {"--lr 0.0100000007",
       [](TrainOptions& o) { o.learning_rate = 1.0000001e-2f; }},
      {"--min-lr 0 and 0.001;",
       [](TrainOptions& o) { o.last_learning_rate = 0; }},
      {"--schedule linear and cosine;",
       [](TrainOptions& o) { o.schedule = Schedule::kLinear; }},
      {"--seed 2 and 1;", [](TrainOptions& o) { o.seed = 2; }},
      {"--layers 3 and 2;", [](TrainOptions& o) { o.model.layers = 3; }},
      {"--heads 4 and 2;", [](TrainOptions& o) { o.model.heads = 4; }},
      {"--width 18 and 16;", [](TrainOptions& o) { o.model.width = 18; }},
      {"--context 8 and 16;", [](TrainOptions& o) { o.model.context = 8; }},
      {"--steps 7 and 6;", [](TrainOptions& o) { o.steps = 7; }},
      {"--batch 8 and 7;", [](TrainOptions& o) { o.batch = 8; }},
      {"--warmup 3 and 2;", [](TrainOptions& o) { o.warmup = 3; }},
      {"--beta1 0.5 and 0.9;",
       [](TrainOptions& o) { o.optimizer.beta1 = 0.5; }},
      {"--beta2 0.5 and 0.95;",
       [](TrainOptions& o) { o.optimizer.beta2 = 0.5; }},
      {"--weight-decay 0 and 0.1;",
       [](TrainOptions& o) { o.optimizer.weight_decay = 0; }},
      {"--clip 2 and 1;", [](TrainOptions& o) { o.optimizer.clip = 2; }},
      {"--val-every 5 and 250;", [](TrainOptions& o) { o.validate_every = 5; }},
      {"--val-batches 5 and 20;",
       [](TrainOptions& o) { o.validation_batches = 5; }},
      {"--skip-spikes 4 and off;", [](TrainOptions& o) { o.skip_spikes = 4; }},
      {"--init-from given and not given;",
       [](TrainOptions& o) { o.init_from = "model"; }},
      {"the files of --data", [&](TrainOptions& o) { o.data = {other}; }},
      {"the files of --val-data",
       [&](TrainOptions& o) { o.validation_data = {other}; }},
  };
  for (const Row& row : kRows) {
    ForEachRank(2, [&](int r, Collective& collective) {
      TrainOptions options = options_;
      if (r == 1) row.change(options);
      auto loop = TrainLoop::Create(options);
      ASSERT_TRUE(loop.ok()) << loop.status();
      const absl::Status status = (*loop)->Enter(collective, {});
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
      EXPECT_NE(
          status.message().find(absl::StrCat("rank 1 and rank 0: ", row.names)),
          absl::string_view::npos)
          << status;
    });
  }
}

}  // namespace
}  // namespace rollcall
