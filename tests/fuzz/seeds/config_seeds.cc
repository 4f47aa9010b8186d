// Descriptions of models for --init-from.
#include <string>

#include "absl/strings/str_replace.h"
#include "tests/fuzz/seeds/seeds.h"
#include "trainer/checkpoint/files/gpt2_config.h"

namespace rollcall {

void Configs(Corpus& corpus) {
  const auto text = [&](const std::string& name, const std::string& config) {
    corpus.Add("config", name, Script().Bytes({0}).Raw(config).text());
  };
  const std::string own = FormatGpt2Config({});
  text("own", own);
  text("gpt2", FormatGpt2Config({12, 12, 768, 1024, 50257}));
  text("fewest_fields",
       R"({"model_type":"gpt2","n_layer":1,"n_head":1,"n_embd":1,)"
       R"("n_positions":1,"vocab_size":1})");
  // As Hugging Face's own file has it.
  text("openai",
       R"({"activation_function":"gelu_new","architectures":)"
       R"(["GPT2LMHeadModel"],"layer_norm_epsilon":1e-05,"model_type":"gpt2",)"
       R"("n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,)"
       R"("n_positions":1024,"task_specific_params":{"text-generation":)"
       R"({"do_sample":true,"max_length":50}},"vocab_size":50257})");
  text("inner",
       absl::StrReplaceAll(own, {{"\"n_inner\": null", "\"n_inner\": 512"}}));
  text("llama", absl::StrReplaceAll(own, {{"\"gpt2\"", "\"llama\""}}));
  text("heads", absl::StrReplaceAll(own, {{"\"n_head\": 4", "\"n_head\": 3"}}));
  text("negative",
       absl::StrReplaceAll(own, {{"\"n_head\": 4", "\"n_head\": -4"}}));
  text("huge", absl::StrReplaceAll(
                   own, {{"\"n_layer\": 3", "\"n_layer\": 4294967299"}}));
  text("escapes", absl::StrReplaceAll(own, {{"gelu_new", "\\u0000\\ud83d"}}));
  text("not_utf8", absl::StrReplaceAll(own, {{"gelu_new", "gelu\xFF"}}));
  text("twice", R"({"model_type":"gpt2","model_type":"gpt2"})");
  text("list", "[]");
  text("cut", own.substr(0, own.size() / 2));
  // Fields are in alphabetical order: 8 is model_type, 13 n_layer.
  const auto edited = [&](const std::string& name, int field,
                          const std::string& value) {
    corpus.Add("config", name, Script().Bytes({1, field}).Raw(value).text());
  };
  edited("edit_type", 8, "17");
  edited("edit_size", 13, "1e3");
  edited("edit_nested", 13, "[[{\"a\":[]}]]");
  edited("edit_out", 13, "");
  corpus.Add("config", "valid",
             Script().Bytes({2, 11, 11, 63, 0xF8, 0xFE}).text());
}

}  // namespace rollcall
