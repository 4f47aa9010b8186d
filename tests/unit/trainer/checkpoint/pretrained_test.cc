#include "trainer/checkpoint/pretrained.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/trainer/files.h"
#include "trainer/checkpoint/files/gpt2_config.h"
#include "trainer/checkpoint/files/safetensors.h"

namespace rollcall {
namespace {

constexpr GptConfig kTiny{2, 2, 4, 8, 16};

TEST(Gpt2Config, ReadsWhatIsWritten) {
  const auto model = ParseGpt2Config(FormatGpt2Config(kTiny));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers, kTiny.layers);
  EXPECT_EQ(model->heads, kTiny.heads);
  EXPECT_EQ(model->width, kTiny.width);
  EXPECT_EQ(model->context, kTiny.context);
  EXPECT_EQ(model->vocabulary, kTiny.vocabulary);
}

TEST(Gpt2Config, AModelThatIsComputedOtherwiseIsRefused) {
  const struct {
    const char* from;
    const char* to;
    const char* said;
  } rows[] = {
      {"\"gpt2\"", "\"llama\"", "model_type: expected \"gpt2\", found"},
      {"\"n_layer\": 2", "\"n_layer\": 0", "n_layer: expected 1 to 256"},
      {"\"n_layer\": 2", "\"n_layers\": 2", "n_layer: .*no such field"},
      {"\"n_head\": 2", "\"n_head\": 3", "n_embd: expected a multiple of"},
      {"\"n_embd\": 4", "\"n_embd\": \"4\"", "n_embd: expected 1 to"},
      {"\"n_inner\": null", "\"n_inner\": 8", "n_inner: expected 16"},
      {"gelu_new", "relu", "activation_function: expected gelu_new"},
      {"1e-05", "1e-06", "layer_norm_epsilon: expected 1e-05, found 1e-06"},
      {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
       "tie_word_embeddings: expected true, found false"},
      {"{", "", "JSON"},
  };
  for (const auto& row : rows) {
    const auto model = ParseGpt2Config(
        absl::StrReplaceAll(FormatGpt2Config(kTiny), {{row.from, row.to}}));
    const std::string said(model.status().message());
    const std::string part = row.said;
    const size_t dots = part.find(".*");
    EXPECT_FALSE(model.ok()) << row.to;
    EXPECT_NE(said.find(part.substr(0, dots)), std::string::npos) << said;
    if (dots != std::string::npos) {
      EXPECT_NE(said.find(part.substr(dots + 2)), std::string::npos) << said;
    }
  }
}

class PretrainedTest : public Files {
 protected:
  // Writes tensor i of the layout with the value i + 1/2; `change` may change
  // the header, not the bytes.
  using Change = std::function<void(std::vector<SafeTensor>&)>;
  void WriteModel(const std::string& prefix, const std::string& dtype,
                  const Change& change = {}) {
    std::vector<SafeTensor> tensors;
    std::string data;
    const auto add = [&](const std::string& name,
                         const std::vector<uint64_t>& shape, size_t size,
                         float value) {
      SafeTensor one;
      one.name = name;
      one.dtype = dtype;
      one.shape = shape;
      one.begin = data.size();
      for (size_t i = 0; i < size; ++i) data += Encoded(value, dtype);
      one.end = data.size();
      tensors.push_back(one);
    };
    const GptLayout layout(kTiny);
    add("lm_head.weight", {16, 4}, 64, 99);
    // The order of the file is not that of the layout.
    for (size_t i = layout.tensors.size(); i-- > 0;) {
      const Tensor& tensor = layout.tensors[i];
      add(prefix + tensor.name, {tensor.shape.begin(), tensor.shape.end()},
          tensor.size, static_cast<float>(i) + 0.5f);
    }
    add(prefix + "h.0.attn.bias", {1, 1, 8, 8}, 64, 1);
    if (change) change(tensors);
    Write("model.safetensors", FormatSafeTensors(tensors) + data);
  }

  static std::string Encoded(float value, const std::string& dtype) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (dtype == "F32") return {reinterpret_cast<char*>(&bits), 4};
    uint16_t half = bits >> 16;  // BF16; these values are exact.
    if (dtype == "F16") {
      half = (bits >> 31 << 15) | ((bits >> 23 & 255) - 112) << 10 |
             (bits >> 13 & 1023);
    }
    return {reinterpret_cast<char*>(&half), 2};
  }

  std::string Said() {
    std::vector<float> weights(GptLayout(kTiny).size);
    return std::string(
        LoadPretrained(folder_, kTiny, absl::MakeSpan(weights)).message());
  }
};

TEST_F(PretrainedTest, EveryTensorComesToItsPlace) {
  const GptLayout layout(kTiny);
  for (const char* prefix : {"", "transformer."}) {
    for (const char* dtype : {"F32", "F16", "BF16"}) {
      WriteModel(prefix, dtype);
      std::vector<float> weights(layout.size, -1);
      const absl::Status status =
          LoadPretrained(folder_, kTiny, absl::MakeSpan(weights));
      ASSERT_TRUE(status.ok()) << prefix << dtype << status;
      for (size_t i = 0; i < layout.tensors.size(); ++i) {
        const Tensor& tensor = layout.tensors[i];
        for (size_t at = 0; at < tensor.size; ++at) {
          ASSERT_EQ(weights[tensor.offset + at], static_cast<float>(i) + 0.5f)
              << prefix << dtype << " " << tensor.name;
        }
      }
    }
  }
}

TEST_F(PretrainedTest, WhatIsWrongIsNamed) {
  EXPECT_NE(Said().find("expected model.safetensors, found no such file"),
            std::string::npos);
  Write("pytorch_model.bin", "");
  EXPECT_NE(Said().find("save_pretrained(DIR, safe_serialization=True)"),
            std::string::npos);
  Write("model.safetensors.index.json", "{}");
  EXPECT_NE(Said().find("split over several files"), std::string::npos);
  Write("model.safetensors", "");
  EXPECT_NE(Said().find("header length"), std::string::npos) << Said();
  const struct {
    Change change;
    const char* said;
  } rows[] = {
      {[](auto& all) { all[1].name = "h.7.ln_1.bias"; }, "h.7.ln_1.bias"},
      {[](auto& all) { all[1].name = "x.attn.bias"; },
       "expected tensor ln_f.bias, found no such tensor"},
      {[](auto& all) { all[1].dtype = "I32"; },
       "ln_f.bias.dtype: expected F32, F16 or BF16, found I32"},
      {[](auto& all) {
         all[1].shape = {2, 2};
       },
       "ln_f.bias.shape: expected [4], found [2, 2]"},
      {[](auto& all) { all[1].name = "transformer." + all[2].name; },
       "each tensor of GPT-2 once"},
  };
  for (const auto& row : rows) {
    WriteModel("", "F32", row.change);
    EXPECT_NE(Said().find(row.said), std::string::npos) << Said();
  }
}

}  // namespace
}  // namespace rollcall
