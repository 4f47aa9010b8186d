// The texts of a checkpoint's files, as tables.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/trainer/checkpoint/checkpoint_fixture.h"
#include "trainer/checkpoint/checkpoint_names.h"
#include "trainer/checkpoint/files/gpt2_config.h"
#include "trainer/checkpoint/files/json_text.h"
#include "trainer/checkpoint/files/manifest.h"
#include "trainer/checkpoint/files/safetensors.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;

class CheckpointText : public CheckpointFixture {};

TEST_F(CheckpointText, SafeTensorsAreAsPublished) {
  const std::string text = FormatSafeTensors(
      {{"a", "F32", {2, 3}, 0, 24}, {"b", "F32", {}, 24, 28}});
  EXPECT_EQ(text.size() % 8, 0u);
  EXPECT_EQ(text.substr(8, text.find_last_not_of(' ') - 7),
            R"({"__metadata__":{"format":"pt"},)"
            R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
            R"("b":{"dtype":"F32","shape":[],"data_offsets":[24,28]}})");
  auto length = SafeTensorsHeaderBytes(text.substr(0, 8), text.size() + 28);
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(*length, text.size() - 8);
  auto parsed = ParseSafeTensors(text.substr(8), 28);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ((*parsed)[1].begin, 24u);
}

TEST_F(CheckpointText, SafeTensorsLengths) {
  const auto bytes = [](uint64_t length) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text;
  };
  const uint64_t kMax = kSafeTensorsHeaderMax;
  struct Row {
    std::string first;
    uint64_t file;
    bool good;
  };
  const Row kRows[] = {
      {bytes(2), 10, true},
      {bytes(3), 10, false},
      {bytes(1), 10, false},
      {bytes(0), 8, false},
      {bytes(kMax), ~0ull, true},
      {bytes(kMax + 1), ~0ull, false},
      {bytes(~0ull), 1000, false},
      {bytes(~0ull - 7), 1000, false},
      {std::string(7, '\0'), 7, false},
      {"", 0, false},
  };
  for (const Row& row : kRows) {
    const auto length = SafeTensorsHeaderBytes(row.first, row.file);
    EXPECT_EQ(length.ok(), row.good) << length.status();
    if (!row.good) {
      EXPECT_EQ(length.status().code(), Code::kDataLoss);
    }
  }
}

TEST_F(CheckpointText, SafeTensorsThatAreInvalid) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return absl::StrCat("{\"dtype\":\"", dtype, "\",\"shape\":[", shape,
                        "],\"data_offsets\":[", offsets, "]}");
  };
  const std::string good = tensor("F32", "2", "0,8");
  struct Row {
    std::string header;
    uint64_t data;
    std::vector<std::string> says;
  };
  const Row kRows[] = {
      {"", 0, {"header"}},
      {" {}", 0, {"header"}},
      {"[]", 0, {"header"}},
      {"{", 0, {"header", "JSON"}},
      {"{\"a\":" + good + "}x", 8, {"JSON"}},
      {"{\"a\":1}", 0, {"tensor a", "object"}},
      {"{\"a\":" + good + ",\"a\":" + good + "}", 8, {"a", "once", "twice"}},
      {"{\"__metadata__\":[]}", 0, {"__metadata__"}},
      {"{\"__metadata__\":{\"a\":1}}", 0, {"__metadata__"}},
      {"{}", 1, {"data", "found 1"}},
      {"{\"a\":" + good + "}", 7, {"tensor a.data_offsets", "0 to 7"}},
      {"{\"a\":" + good + "}", 9, {"data", "expected 8", "found 9"}},
      {"{\"a\":" + tensor("F99", "2", "0,8") + "}", 8, {"a.dtype", "F99"}},
      {"{\"a\":" + tensor("F32", "3", "0,8") + "}", 8, {"a.shape", "[3]"}},
      {"{\"a\":" + tensor("F32", "-2", "0,8") + "}", 8, {"a.shape"}},
      {"{\"a\":" + tensor("F32", "2.0", "0,8") + "}", 8, {"a.shape"}},
      {"{\"a\":" + tensor("F32", "4611686018427387904,4", "0,8") + "}",
       8,
       {"a.shape"}},
      {"{\"a\":" + tensor("F32", "2", "8,0") + "}", 8, {"data_offsets"}},
      {"{\"a\":" + tensor("F32", "2", "0,8,16") + "}", 16, {"data_offsets"}},
      {"{\"a\":" + tensor("F32", "2", "0") + "}", 8, {"data_offsets"}},
      {"{\"a\":" + tensor("F32", "2", "0,18446744073709551615") + "}",
       8,
       {"data_offsets"}},
      {"{\"a\":" + good + ",\"b\":" + tensor("F32", "2", "4,12") + "}",
       12,
       {"tensor b", "from 8 on", "found 4"}},
      {"{\"a\":" + good + ",\"b\":" + tensor("F32", "1", "12,16") + "}",
       16,
       {"tensor b", "from 8 on", "found 12"}},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, {"data_offsets"}},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],"
       "\"x\":1}}",
       8,
       {"tensor a", "3 fields"}},
      {"{\"a\":" + std::string(100000, '['), 8, {"deep"}},
  };
  for (const Row& row : kRows) {
    const auto parsed = ParseSafeTensors(row.header, row.data);
    EXPECT_EQ(parsed.status().code(), Code::kDataLoss)
        << row.header.substr(0, 99);
    ExpectSays(parsed.status().message(), row.says);
  }
  // The tensors may come in any order, and may have any known type.
  const auto parsed = ParseSafeTensors(
      "{\"a\":" + tensor("BF16", "2", "8,12") + ",\"b\":" + good +
          ",\"c\":" + tensor("I64", "0,7", "8,8") + "}  ",
      12);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)[0].name, "b");
  EXPECT_EQ((*parsed)[1].name, "c");
  EXPECT_EQ((*parsed)[2].name, "a");
}

TEST_F(CheckpointText, TrainStatesReadBackTheSameBits) {
  for (const double value :
       {0.1 + 0.2, 1e-300, -0.0, 5e-324, 1.7976931348623157e308, 2.0 / 3, 1.0,
        0x1.fffffffffffffp-3}) {
    TrainState state = StateOf(7);
    state.loss = value;
    state.powers = {value, -value};
    state.optimizer.epsilon = 1.4e-45f;
    state.optimizer.weight_decay = 0.1f;
    const std::string text = FormatTrainState(state);
    auto parsed = ParseTrainState(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(std::memcmp(&parsed->loss, &value, sizeof(value)), 0) << value;
    EXPECT_EQ(std::memcmp(&parsed->powers, &state.powers, sizeof(state.powers)),
              0);
    EXPECT_EQ(std::memcmp(&parsed->optimizer, &state.optimizer,
                          sizeof(state.optimizer)),
              0);
    EXPECT_EQ(parsed->position, state.position);
    EXPECT_EQ(parsed->seed, state.seed);
    EXPECT_EQ(parsed->learning_rate, state.learning_rate);
    ASSERT_TRUE(parsed->fall.has_value());
    EXPECT_EQ(parsed->fall->last, state.fall->last);
    EXPECT_EQ(parsed->fall->schedule, state.fall->schedule);
    EXPECT_EQ(parsed->data_fingerprint, state.data_fingerprint);
    EXPECT_TRUE(SameModel(state.model, parsed->model).ok());
    EXPECT_EQ(FormatTrainState(*parsed), text);
  }
}

// Rollcall wrote version 1 before the fall of the learning rate was kept.
TEST_F(CheckpointText, TrainStatesOfVersion1AreRead) {
  TrainState state = StateOf(7);
  state.fall = std::nullopt;
  const std::string text = FormatTrainState(state);
  ExpectSays(text, {"\"version\": 1"});
  EXPECT_EQ(text.find("fall"), std::string::npos) << text;
  const auto parsed = ParseTrainState(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->fall.has_value());
  EXPECT_EQ(FormatTrainState(*parsed), text);
}

TEST_F(CheckpointText, TrainStatesThatAreInvalid) {
  struct Row {
    const char *from, *to;
    Code code;
    std::vector<std::string> says;
  };
  const Row kRows[] = {
      {"\"version\": 2",
       "\"version\": 3",
       Code::kFailedPrecondition,
       {"version", "expected 1 to 2, found 3", "newer rollcall"}},
      {"\"version\": 2", "\"version\": \"2\"", Code::kDataLoss, {"version"}},
      {"\"version\": 2", "\"version\": 0", Code::kDataLoss, {"version"}},
      {"\"version\": 2", "\"version\": 1", Code::kDataLoss, {"fields"}},
      {"\"version\": 2,", "", Code::kDataLoss, {"version", "no such field"}},
      {"\"fall\"", "\"rise\"", Code::kDataLoss, {"fall", "no such field"}},
      {"\"linear\"",
       "\"line\"",
       Code::kDataLoss,
       {"fall.schedule", "cosine, linear, constant", "line"}},
      {"\"step\": 7", "\"step\": -7", Code::kDataLoss, {"step", "found -7"}},
      {"\"step\": 7", "\"step\": 7.5", Code::kDataLoss, {"step", "7.5"}},
      {"\"step\": 7", "\"step\": 9007199254740993", Code::kDataLoss, {"step"}},
      {"\"step\": 7", "\"step\": 7, \"step\": 7", Code::kDataLoss, {"twice"}},
      {"\"step\": 7", "\"step\": 7, \"mine\": 7", Code::kDataLoss, {"fields"}},
      {"\"cursor\": 7",
       "\"cursor\": []",
       Code::kDataLoss,
       {"position.cursor", "a list"}},
      {"\"layers\": 2",
       "\"layers\": 257",
       Code::kDataLoss,
       {"model.layers", "1 to 256", "257"}},
      {"\"heads\": 2", "\"heads\": 3", Code::kDataLoss, {"model.width"}},
      {"\"heads\": 2", "\"heads\": 0", Code::kDataLoss, {"model.heads"}},
      {"\"clip\": 1.0", "\"clip\": 1e39", Code::kDataLoss, {"optimizer.clip"}},
      {"\"clip\": 1.0", "\"clip\": 1e999", Code::kDataLoss, {"JSON"}},
      {"\"clip\": 1.0", "\"clip\": null", Code::kDataLoss, {"optimizer.clip"}},
      {"\"backend\": \"cpu\"",
       "\"backend\": \"\xff\"",
       Code::kDataLoss,
       {"JSON"}},
      {"\"backend\": \"cpu\"", "\"backend\": 3", Code::kDataLoss, {"backend"}},
  };
  const std::string good = FormatTrainState(StateOf(7));
  for (const Row& row : kRows) {
    ASSERT_NE(good.find(row.from), std::string::npos) << row.from << good;
    const auto parsed =
        ParseTrainState(absl::StrReplaceAll(good, {{row.from, row.to}}));
    EXPECT_EQ(parsed.status().code(), row.code) << row.to << parsed.status();
    ExpectSays(parsed.status().message(), row.says);
  }
  for (const char* text : {"", "[]", "null", "{}", "{\"version\": 1}"}) {
    EXPECT_EQ(ParseTrainState(text).status().code(), Code::kDataLoss) << text;
  }
}

TEST_F(CheckpointText, Manifests) {
  Manifest manifest;
  manifest.step = 7;
  const std::string sha(64, 'a');
  manifest.files = {{"a", 1, sha}, {"b", 0, sha}};
  const std::string good = FormatManifest(manifest);
  auto parsed = ParseManifest(good);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(FormatManifest(*parsed), good);
  EXPECT_EQ(parsed->Find("b")->bytes, 0u);
  EXPECT_EQ(parsed->Find("c"), nullptr);
  struct Row {
    std::string from, to;
    std::vector<std::string> says;
  };
  const Row kRows[] = {
      {"\"b\"", "\"a\"", {"a", "twice"}},
      {"\"b\"", "\"\"", {"files[1].name"}},
      {"\"b\"", "\"..\"", {"files[1].name"}},
      {"\"b\"", "\"/b\"", {"files[1].name"}},
      {"\"b\"", "\"b\\u0000\"", {"files[1].name"}},
      {"\"bytes\": 0", "\"bytes\": -1", {"files[1].bytes"}},
      {sha, std::string(64, 'A'), {"files[0].sha256"}},
      {sha, std::string(63, 'a'), {"files[0].sha256"}},
      {"\"step\": 7", "\"step\": null", {"step"}},
      {"\"files\"", "\"file\"", {"files", "no such field"}},
  };
  for (const Row& row : kRows) {
    ASSERT_NE(good.find(row.from), std::string::npos) << row.from;
    parsed = ParseManifest(absl::StrReplaceAll(good, {{row.from, row.to}}));
    EXPECT_EQ(parsed.status().code(), Code::kDataLoss) << row.to;
    ExpectSays(parsed.status().message(), row.says);
  }
}

TEST_F(CheckpointText, Names) {
  EXPECT_EQ(FormatCheckpointName(100), "step-00000100");
  EXPECT_EQ(FormatCheckpointName(1234567890), "step-1234567890");
  struct Row {
    const char* name;
    int64_t step;  // -1: not one of the store's names.
    CheckpointKind kind = CheckpointKind::kWhole;
  };
  const Row kRows[] = {
      {"step-00000100", 100},
      {"step-1234567890", 1234567890},
      {"step-00000100.partial", 100, CheckpointKind::kPartial},
      {"step-00000100.replaced", 100, CheckpointKind::kReplaced},
      {"step-00000100.damaged", -1},
      {"step-100", -1},
      {"step-000000100", -1},
      {"step--0000100", -1},
      {"step-+0000100", -1},
      {"step- 0000100", -1},
      {"step-99999999999999999999", -1},
      {"step-", -1},
      {"latest", -1},
      {"", -1},
  };
  for (const Row& row : kRows) {
    const auto parsed = ParseCheckpointName(row.name);
    ASSERT_EQ(parsed.has_value(), row.step >= 0) << row.name;
    if (!parsed.has_value()) continue;
    EXPECT_EQ(parsed->step, row.step);
    EXPECT_EQ(parsed->kind, row.kind);
  }
}

TEST_F(CheckpointText, ConfigIsGpt2s) {
  const auto config = ParseJson(FormatGpt2Config(Model()));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)["model_type"], "gpt2");
  EXPECT_EQ((*config)["architectures"], Json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ((*config)["n_layer"], 2);
  EXPECT_EQ((*config)["n_positions"], 8);
  EXPECT_EQ((*config)["vocab_size"], 16);
  EXPECT_EQ((*config)["activation_function"], "gelu_new");
  EXPECT_EQ((*config)["tie_word_embeddings"], true);
  EXPECT_TRUE((*config)["eos_token_id"].is_null());
}

}  // namespace
}  // namespace rollcall
