#include "trainer/checkpoint/gpt2_config.h"

#include "nlohmann/json.hpp"

namespace rollcall {

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

}  // namespace rollcall
