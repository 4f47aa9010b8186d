// The command line of rollcall-train.
#include "trainer/rank/options.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/unit/trainer/files.h"
#include "trainer/checkpoint/files/gpt2_config.h"

namespace rollcall {
namespace {

// The model's shape is that of --init-from's folder; a flag that differs is
// named.
class InitFrom : public Files {};

TEST_F(InitFrom, HasTheShape) {
  GptConfig model{3, 2, 16, 32, 256};
  Write("config.json", FormatGpt2Config(model));
  const struct {
    std::vector<const char*> flags;
    std::string said;
  } rows[] = {
      {{}, ""},
      {{"--layers", "3", "--width", "16"}, ""},
      {{"--layers", "4"}, "--layers: got 4, expected 3 as --init-from"},
      {{"--heads", "4"}, "--heads: got 4, expected 2"},
      {{"--width", "32"}, "--width: got 32, expected 16"},
      {{"--context", "8"}, "--context: got 8, expected 32"},
      {{"--model", "gpt2"}, "--model gpt2: --layers: got 12, expected 3"},
      {{"--init-from", ""}, "--init-from: got an empty value"},
      {{"--init-from", "/none"}, "--init-from: /none/config.json: "},
  };
  for (const auto& row : rows) {
    std::vector<const char*> argv = {"rollcall-train", "--data", "a"};
    argv.insert(argv.end(), row.flags.begin(), row.flags.end());
    if (row.said.find("--init-from: ") != 0) {
      argv.insert(argv.end(), {"--init-from", folder_.c_str()});
    }
    TrainOptions options;
    testing::internal::CaptureStderr();
    const auto code = ParseOptions(argv.size(), argv.data(), &options);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(row.said), std::string::npos) << said;
    if (!row.said.empty()) {
      EXPECT_EQ(code, 2) << row.said;
      continue;
    }
    ASSERT_EQ(code, std::nullopt) << said;
    EXPECT_EQ(options.model.layers, 3);
    EXPECT_EQ(options.model.heads, 2);
    EXPECT_EQ(options.model.width, 16);
    EXPECT_EQ(options.model.context, 32);
    EXPECT_EQ(options.learning_rate, 3e-3f);
  }
  // The learning rate suits the folder's model.
  model = {12, 12, 768, 1024, 50257};
  Write("config.json", FormatGpt2Config(model));
  const char* argv[] = {"rollcall-train", "--data", "a", "--init-from",
                        folder_.c_str()};
  TrainOptions options;
  ASSERT_EQ(ParseOptions(std::size(argv), argv, &options), std::nullopt);
  EXPECT_EQ(options.learning_rate, 6e-4f);
  EXPECT_EQ(options.model.vocabulary, 50257);
}

TEST(TrainOptions, CommandLine) {
  struct Row {
    std::vector<const char*> flags;
    std::optional<int> expect;
    const char* said = "";  // Part of the message.
  };
  const Row kRows[] = {
      {{"--data", "a", "b", "--steps", "5"}, std::nullopt},
      {{"--data", "a", "--lr", "1e-4", "--seed", "3"}, std::nullopt},
      {{"--help"}, 0},
      {{"--version"}, 0},
      {{}, 2, "--data is required"},
      {{"--sample", "a", "--checkpoints", "b"}, std::nullopt},
      {{"--sample", "a"}, 2, "--sample needs a model: give --init-from"},
      {{"--sample", "", "--checkpoints", "b"}, 2, "--sample: got an empty"},
      {{"--sample", "a", "--checkpoints", "b", "--sample-tokens", "0"},
       2,
       "--sample-tokens: got 0"},
      {{"--sample", "a", "--checkpoints", "b", "--temperature", "nan"},
       2,
       "--temperature: got nan"},
      {{"--data", "a", "--sample-tokens", "5"}, 2, "--sample-tokens requires"},
      {{"--data", "a", "--temperature", "1"}, 2, "--temperature requires"},
      {{"--data"}, 2, "--data"},
      {{"--data", ""}, 2, "--data: got an empty value"},
      {{"--data", "a", "--checkpoints", ""}, 2, "--checkpoints: got an empty"},
      {{"--check", "--require-net", ""}, 2, "--require-net: got an empty"},
      {{"--check", "--device", "cpu", "--collective-timeout", "9", "--json",
        "--pings", "7", "--require-net", "any"},
       std::nullopt},
      {{"--check", "--skip-spikes", "4"},
       2,
       "--check: got --skip-spikes, expected only"},
      {{"--check", "--val-data", "a", "--init-from", "b"},
       2,
       "--check: got --val-data, --init-from, expected only"},
      {{"--check", "--sample", "a", "--checkpoints", "b"},
       2,
       "--check: got --sample, --checkpoints, expected only"},
      {{"--check", "--val-every", "5"}, 2, "--check: got --val-every"},
      {{"--check", "--data", "a"}, 2, "leave it out, or leave out --check"},
      {{"--check", "--new-data"}, 2, "--check: got --new-data"},
      {{"--check", "--log-json"}, 2, "--check: got --log-json"},
      {{"--check", "--min-busbw", ""}, 2, "--min-busbw: got an empty"},
      {{"--data", "a", "--stepz", "5"}, 2, "5"},
      {{"--data", "a", "--steps", "0"}, 2, "--steps: got 0, expected 1"},
      {{"--data", "a", "--steps", "x"}, 2, "--steps: got x"},
      {{"--data", "a", "--batch", "65537"}, 2, "--batch: got 65537"},
      {{"--data", "a", "--micro-batch", "3", "--memory-max", "1e9"},
       std::nullopt},
      {{"--data", "a", "--micro-batch", "0"}, 2, "--micro-batch: got 0"},
      {{"--data", "a", "--seed", "-1"}, 2, "--seed: got -1"},
      {{"--data", "a", "--width", "30", "--heads", "4"}, 2, "30"},
      {{"--data", "a", "--context", "-1"}, 2, "-1"},
      {{"--data", "a", "--lr", "nan"}, 2, "--lr: got nan"},
      {{"--data", "a", "--lr", "0"}, 2, "--lr: got 0"},
      {{"--data", "a", "--min-lr", "0", "--schedule", "linear"}, std::nullopt},
      {{"--data", "a", "--min-lr", "-1"}, 2, "--min-lr: got -1"},
      {{"--data", "a", "--min-lr", "0.004"},
       2,
       "--min-lr: got 0.004, expected at most --lr, 0.003"},
      {{"--data", "a", "--schedule", "step"},
       2,
       "--schedule: got step, expected cosine, linear, constant"},
      {{"--data", "a", "--beta1", "1"}, 2, "--beta1: got 1"},
      {{"--data", "a", "--beta2", "1"}, 2, "--beta2: got 1"},
      {{"--data", "a", "--weight-decay", "-1"}, 2, "--weight-decay: got -1"},
      {{"--data", "a", "--clip", "0"}, 2, "--clip: got 0"},
      {{"--data", "a", "--device", "tpu"},
       2,
       "--device: got tpu, expected auto, cpu, cuda"},
      {{"--data", "a", "--device", "2"}, 2, "--device: got 2"},
      {{"--data", "a", "--saved-by", "me"},
       2,
       "--saved-by: got me, expected rank0, node"},
      {{"--data", "a", "--model", "gpt5"}, 2, "gpt5"},
      {{"--data", "a", "--save-every", "0"}, 2, "--save-every: got 0"},
      {{"--data", "a", "--keep-last", "0"}, 2, "--keep-last: got 0"},
      {{"--data", "a", "--log-every", "0"}, 2, "--log-every: got 0"},
      {{"--data", "a", "--warmup", "-1"}, 2, "--warmup: got -1"},
      {{"--data", "a", "--layers", "0"}, 2, "0"},
      {{"--data", "a", "--val-data", "b", "c", "--val-every", "5",
        "--val-batches", "3"},
       std::nullopt},
      {{"--data", "a", "--val-data"}, 2, "--val-data"},
      {{"--data", "a", "--val-every", "5"}, 2, "--val-every needs --val-data"},
      {{"--data", "a", "--val-batches", "5"},
       2,
       "--val-batches needs --val-data"},
      {{"--data", "a", "--val-data", "b", "--val-every", "0"},
       2,
       "--val-every: got 0"},
      {{"--data", "a", "--skip-spikes", "4"}, std::nullopt},
      {{"--data", "a", "--skip-spikes", "0.5"},
       2,
       "--skip-spikes: got 0.5, expected 1"},
      {{"--data", "a", "--skip-spikes", "nan"}, 2, "--skip-spikes: got nan"},
      {{"--data", "a", "--collective-timeout", "0"}, 2, "--collective-timeout"},
      {{"--data", "a", "--collective-timeout", "nan"},
       2,
       "--collective-timeout: got nan"},
  };
  for (const Row& row : kRows) {
    std::vector<const char*> argv = {"rollcall-train"};
    argv.insert(argv.end(), row.flags.begin(), row.flags.end());
    TrainOptions options;
    testing::internal::CaptureStderr();
    const std::optional<int> code =
        ParseOptions(argv.size(), argv.data(), &options);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, row.expect) << testing::PrintToString(row.flags);
    EXPECT_NE(said.find(row.said), std::string::npos)
        << testing::PrintToString(row.flags) << ": " << said;
  }
}

TEST(TrainOptions, TheSizeHasALearningRate) {
  const struct {
    std::vector<const char*> flags;
    LearningRates expect;
  } rows[] = {
      {{}, {3e-3f, 3e-4f, 20, 200, Schedule::kCosine}},
      {{"--model", "gpt2"}, {6e-4f, 6e-5f, 20, 200, Schedule::kCosine}},
      {{"--model", "gpt2", "--lr", "0.01", "--min-lr", "0", "--schedule",
        "constant"},
       {0.01f, 0, 20, 200, Schedule::kConstant}},
  };
  for (const auto& row : rows) {
    std::vector<const char*> argv = {"rollcall-train", "--data", "a"};
    argv.insert(argv.end(), row.flags.begin(), row.flags.end());
    TrainOptions options;
    ASSERT_EQ(ParseOptions(argv.size(), argv.data(), &options), std::nullopt);
    const LearningRates rates = options.learning_rates();
    EXPECT_EQ(rates.peak, row.expect.peak);
    EXPECT_FLOAT_EQ(rates.last, row.expect.last);
    EXPECT_EQ(rates.schedule, row.expect.schedule);
  }
}

}  // namespace
}  // namespace rollcall
