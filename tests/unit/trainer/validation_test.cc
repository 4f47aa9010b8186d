#include "trainer/steps/validation.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/trainer/files.h"
#include "tests/unit/trainer/ranks.h"
#include "trainer/collective/single.h"
#include "trainer/train_loop.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

class ValidationTest : public Files {
 protected:
  ValidationTest() {
    std::string text;
    for (int i = 0; i < 700; ++i) text += "the quick brown fox, number ";
    options_.data = {Write("text", text)};
    options_.validation_data = {Write("held_out", text.substr(5, 19000))};
    options_.validation_batches = 1000;  // All of it.
    options_.validate_every = 2;
    options_.model = {2, 2, 16, 16};
    options_.batch = 7;
    options_.steps = 5;
    options_.warmup = 2;
  }

  std::unique_ptr<TrainLoop> Loop(const TrainOptions& options) {
    auto loop = TrainLoop::Create(options);
    EXPECT_TRUE(loop.ok()) << loop.status();
    return *std::move(loop);
  }

  TrainOptions options_;
};

// Five chunks, the last one shorter, over worlds in which a rank has two, one
// or none.
TEST_F(ValidationTest, TheWorldsSizeDoesNotChangeABit) {
  SingleCollective single;
  const std::unique_ptr<TrainLoop> alone = Loop(options_);
  ASSERT_TRUE(alone->Enter(single, {}).ok());
  EXPECT_EQ(alone->validation()->samples(), 1187u);
  const auto expect = alone->Validate();
  ASSERT_TRUE(expect.ok()) << expect.status();
  EXPECT_NEAR(*expect, 5.55, 0.1);  // ln 256
  for (int ranks : {2, 3, 8}) {
    ForEachConnected(ranks, [&](std::unique_ptr<Collective> collective) {
      const std::unique_ptr<TrainLoop> loop = Loop(options_);
      ASSERT_TRUE(loop->Enter(*collective, {}).ok());
      const auto found = loop->Validate();
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, *expect)
          << "rank " << collective->rank() << " of " << ranks;
      EXPECT_TRUE(collective->Finish().ok());
    });
  }
}

// All chunks count, each with its own weight: the loss is the mean over all
// tokens.
TEST_F(ValidationTest, IsTheMeanOverTheFirstSamples) {
  SingleCollective single;
  for (const int64_t batches : {int64_t{1}, int64_t{60}, int64_t{1000}}) {
    TrainOptions options = options_;
    options.validation_batches = batches;
    const std::unique_ptr<TrainLoop> loop = Loop(options);
    ASSERT_TRUE(loop->Enter(single, {}).ok());
    const uint64_t samples = std::min<uint64_t>(7 * batches, 1187);
    ASSERT_EQ(loop->validation()->samples(), samples);
    auto dataset = Dataset::Open(options.validation_data);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::vector<Token> text(samples * 16 + 1);
    ASSERT_TRUE(dataset->Read(0, absl::MakeSpan(text)).ok());
    const absl::Span<const Token> tokens(text);
    const auto sum =
        loop->backend().Loss(tokens.first(samples * 16), tokens.subspan(1));
    ASSERT_TRUE(sum.ok()) << sum.status();
    const auto found = loop->Validate();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_NEAR(*found, *sum / (samples * 16), 1e-6) << batches;
  }
}

TEST_F(ValidationTest, TheTrainingDoesNotNoticeIt) {
  TrainOptions without = options_;
  without.validation_data.clear();
  SingleCollective single;
  const std::unique_ptr<TrainLoop> plain = Loop(without);
  const std::unique_ptr<TrainLoop> validated = Loop(options_);
  ASSERT_TRUE(plain->Enter(single, {}).ok());
  ASSERT_TRUE(validated->Enter(single, {}).ok());
  std::vector<double> losses;
  std::string due;
  for (int i = 0; i < options_.steps; ++i) {
    const auto expect = plain->Step();
    const auto found = validated->Step();
    ASSERT_TRUE(expect.ok() && found.ok());
    EXPECT_EQ(found->loss, expect->loss);
    EXPECT_EQ(found->gradient_norm, expect->gradient_norm);
    EXPECT_FALSE(plain->ValidationDue());
    if (!validated->ValidationDue()) continue;
    due += std::to_string(found->step) + " ";
    const auto loss = validated->Validate();
    ASSERT_TRUE(loss.ok()) << loss.status();
    losses.push_back(*loss);
  }
  EXPECT_EQ(due, "2 4 5 ");  // Every second step, and the last one.
  EXPECT_LT(losses[2], losses[1]);
  EXPECT_LT(losses[1], losses[0]);
  const auto weights = [](TrainLoop& loop) {
    const auto span = loop.backend().state(StatePart::kWeights);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(weights(*validated), weights(*plain));
  EXPECT_EQ(validated->state().position, plain->state().position);
}

TEST_F(ValidationTest, RefusesBadData) {
  const std::string shard_header = [] {
    std::string header(1024, '\0');
    const uint32_t words[] = {20240520, 1, 40};
    header.replace(0, sizeof(words), reinterpret_cast<const char*>(words),
                   sizeof(words));
    return header;
  }();
  const struct {
    std::vector<std::string> files;
    Code code;
    const char* said;
  } kRows[] = {
      {{"/none"}, Code::kNotFound, "--val-data /none"},
      {{Write("empty", "")},
       Code::kInvalidArgument,
       "--val-data holds 0 bytes: expected at least 17"},
      {{Write("short", "0123456789abcdef")},
       Code::kInvalidArgument,
       "--val-data holds 16 bytes: expected at least 17"},
      {{Write("shard.bin", shard_header + std::string(80, '\0'))},
       Code::kInvalidArgument,
       "expected bytes as --data holds, found tokens"},
      {{folder_}, Code::kInvalidArgument, "is a directory"},
  };
  for (const auto& row : kRows) {
    TrainOptions options = options_;
    options.validation_data = row.files;
    const absl::Status status = TrainLoop::Create(options).status();
    EXPECT_EQ(status.code(), row.code) << status;
    EXPECT_NE(status.message().find(row.said), std::string::npos) << status;
  }
}

TEST_F(ValidationTest, FindsAFileThatIsTrainedOn) {
  EXPECT_EQ(Loop(options_)->validation()->trained_on(), std::nullopt);
  const std::string link = Path("link");
  std::filesystem::create_hard_link(options_.data[0], link);
  options_.validation_data.push_back(link);
  EXPECT_EQ(Loop(options_)->validation()->trained_on(), link);
}

TEST_F(ValidationTest, RanksWithOtherDataOrFlagsDoNotTrain) {
  const struct {
    const char* names;
    std::function<void(TrainOptions&)> change;
  } kRows[] = {
      {"files of --val-data differ",
       [](TrainOptions& o) { o.validation_data = o.data; }},
      {"files of --val-data differ",
       [](TrainOptions& o) { o.validation_data.clear(); }},
      {"--val-every 3 and ", [](TrainOptions& o) { o.validate_every = 3; }},
      {"--val-batches 3 and ",
       [](TrainOptions& o) { o.validation_batches = 3; }},
  };
  for (const auto& row : kRows) {
    ForEachConnected(2, [&](std::unique_ptr<Collective> collective) {
      TrainOptions options = options_;
      if (collective->rank() == 1) row.change(options);
      const absl::Status status = Loop(options)->Enter(*collective, {});
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
      EXPECT_NE(status.message().find(row.names), std::string::npos) << status;
      EXPECT_TRUE(collective->Finish().ok());
    });
  }
}

}  // namespace
}  // namespace rollcall
