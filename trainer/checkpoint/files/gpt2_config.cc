#include "trainer/checkpoint/files/gpt2_config.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "trainer/checkpoint/files/json_text.h"

namespace rollcall {
namespace {

absl::Status BadConfig(absl::string_view what, absl::string_view expected,
                       absl::string_view found) {
  return absl::InvalidArgumentError(
      WrongField(what, expected, found).message());
}

absl::Status TakeConfigSize(const Json& json, const char* field, int max,
                            int* to) {
  const auto found = json.find(field);
  const std::string expected = absl::StrCat("1 to ", max);
  if (found == json.end()) return BadConfig(field, expected, "no such field");
  if (!found->is_number_unsigned() || found->get<uint64_t>() < 1 ||
      found->get<uint64_t>() > static_cast<uint64_t>(max)) {
    return BadConfig(field, expected, Excerpt(found->dump()));
  }
  *to = found->get<int>();
  return absl::OkStatus();
}

// The fields that change what the model computes, with the value that this
// trainer computes with. A field that is missing has that value.
absl::Status CheckComputation(const Json& json, int width) {
  const auto is = [&](const char* field, const Json& expected) {
    const auto found = json.find(field);
    if (found == json.end() || *found == expected) return absl::OkStatus();
    return BadConfig(field, expected.dump(), Excerpt(found->dump()));
  };
  for (absl::Status s :
       {is("tie_word_embeddings", true), is("scale_attn_weights", true),
        is("scale_attn_by_inverse_layer_idx", false),
        is("layer_norm_epsilon", 1e-5), is("add_cross_attention", false)}) {
    if (!s.ok()) return s;
  }
  const auto inner = json.find("n_inner");
  if (inner != json.end() && !inner->is_null() && *inner != 4 * width) {
    return BadConfig("n_inner", absl::StrCat(4 * width, ", four times n_embd"),
                     Excerpt(inner->dump()));
  }
  const auto gelu = json.find("activation_function");
  if (gelu != json.end() && *gelu != "gelu_new" &&
      *gelu != "gelu_pytorch_tanh") {
    return BadConfig("activation_function", "gelu_new", Excerpt(gelu->dump()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FormatGpt2Config(const GptConfig& config) {
  // The end-of-text token, which only GPT-2's vocabulary has.
  constexpr int kEndOfText = 50256;
  nlohmann::ordered_json json = {
      {"model_type", "gpt2"},
      {"architectures", {"GPT2LMHeadModel"}},
      {"n_layer", config.layers},
      {"n_head", config.heads},
      {"n_embd", config.width},
      {"n_inner", nullptr},
      {"n_positions", config.context},
      {"n_ctx", config.context},
      {"vocab_size", config.vocabulary},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", 1e-5},
      {"tie_word_embeddings", true},
      {"scale_attn_weights", true},
      {"attn_pdrop", 0.0},
      {"embd_pdrop", 0.0},
      {"resid_pdrop", 0.0},
      {"initializer_range", 0.02},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"torch_dtype", "float32"},
  };
  if (config.vocabulary > kEndOfText) {
    json["bos_token_id"] = kEndOfText;
    json["eos_token_id"] = kEndOfText;
  }
  return json.dump(2) + "\n";
}

absl::StatusOr<GptConfig> ParseGpt2Config(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseJson(text);
  if (!json.ok()) return json.status();
  if (!json->is_object())
    return BadConfig("the whole", "an object", "another value");
  const auto type = json->find("model_type");
  if (type == json->end() || *type != "gpt2") {
    return BadConfig(
        "model_type", "\"gpt2\"",
        type == json->end() ? "no such field" : Excerpt(type->dump()));
  }
  GptConfig model;
  for (absl::Status s :
       {TakeConfigSize(*json, "n_layer", GptConfig::kLayersMax, &model.layers),
        TakeConfigSize(*json, "n_head", GptConfig::kWidthMax, &model.heads),
        TakeConfigSize(*json, "n_embd", GptConfig::kWidthMax, &model.width),
        TakeConfigSize(*json, "n_positions", GptConfig::kContextMax,
                       &model.context),
        TakeConfigSize(*json, "vocab_size", GptConfig::kVocabularyMax,
                       &model.vocabulary)}) {
    if (!s.ok()) return s;
  }
  if (model.width % model.heads != 0) {
    return BadConfig("n_embd",
                     absl::StrCat("a multiple of n_head, ", model.heads),
                     absl::StrCat(model.width));
  }
  if (absl::Status s = CheckComputation(*json, model.width); !s.ok()) return s;
  return model;
}

}  // namespace rollcall
