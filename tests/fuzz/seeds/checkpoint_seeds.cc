// Checkpoints, and headers of data files.
#include <initializer_list>
#include <string>

#include "absl/strings/str_replace.h"
#include "tests/fuzz/seeds/seeds.h"
#include "trainer/checkpoint/files/manifest.h"
#include "trainer/checkpoint/files/safetensors.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {
namespace {

// The first words of a data file, each of 32 bits with the lowest byte first.
std::string ShardHead(std::initializer_list<uint32_t> words, size_t bytes) {
  std::string head;
  for (const uint32_t word : words) {
    for (int i = 0; i < 4; ++i) head += static_cast<char>(word >> (8 * i));
  }
  head.resize(bytes);
  return head;
}

}  // namespace

void Checkpoints(Corpus& corpus) {
  const auto add = [&](const std::string& name,
                       std::initializer_list<int> bytes,
                       const std::string& text) {
    corpus.Add("checkpoint", name, Script().Bytes(bytes).Raw(text).text());
  };
  const std::string tensors =
      FormatSafeTensors({{"wte.weight", "F32", {2, 3}, 0, 24},
                         {"empty", "BF16", {0, 7}, 24, 24},
                         {"h.0.ln_1.bias", "F32", {}, 24, 28}});
  add("header", {0, 28}, tensors.substr(8));
  add("header_short", {0, 27}, tensors.substr(8));
  add("header_twice", {0, 8},
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  add("header_huge", {0, 0xFE},
      R"({"a":{"dtype":"U8","shape":[18446744073709551615],)"
      R"("data_offsets":[0,18446744073709551615]}})");
  add("header_overflow", {0, 0},
      R"({"a":{"dtype":"F64","shape":[2305843009213693952],)"
      R"("data_offsets":[0,0]}})");
  add("header_deep", {0, 0}, std::string(64, '['));
  add("tensor_file", {1, 28}, tensors);
  add("tensor_file_cut", {1, 0}, tensors);
  corpus.Add("checkpoint", "tensors",
             Script()
                 .Bytes({2})
                 .Text("h.0.attn.c_attn.weight")
                 .Bytes({0, 2, 4, 12})
                 .Text("none")
                 .Bytes({1, 1, 0})
                 .Text("\"\\caf\xC3\xA9")
                 .Bytes({0, 0})
                 .text());
  Manifest manifest;
  manifest.step = 100;
  for (const char* name : {"model.safetensors", "trainer_state.json"}) {
    manifest.files.push_back({name, 28, std::string(64, 'a')});
  }
  const std::string manifest_text = FormatManifest(manifest);
  add("manifest", {3}, manifest_text);
  add("manifest_newer", {3},
      absl::StrReplaceAll(manifest_text,
                          {{"\"version\": 1", "\"version\": 2"}}));
  add("manifest_elsewhere", {3},
      absl::StrReplaceAll(manifest_text, {{"model", "../model"}}));
  TrainState state;
  state.step = 100;
  state.loss = 1.0 / 3;
  state.backend = "cpu";
  add("state", {4}, FormatTrainState(state));
  state.fall = RateFall{1e-4f, Schedule::kLinear};
  add("state_falls", {4}, FormatTrainState(state));
  state.fall = std::nullopt;
  add("state_heads", {4},
      absl::StrReplaceAll(FormatTrainState(state),
                          {{"\"heads\": ", "\"heads\": 3"}}));
  add("name", {5}, "step-00000100");
  add("name_partial", {5}, "step-123456789.partial");
  add("shard", {6, 1, 4}, ShardHead({20240520, 1, 2}, 1024));
  add("shard_short", {6, 1, 0}, ShardHead({20240520, 1, 2}, 1000));
  add("shard_negative", {6, 0, 0}, ShardHead({20240520, 1, ~0u}, 1024));
  add("shard_llama", {6, 0, 0}, ShardHead({20240801, 7, 9}, 1024));
  add("bytes", {6, 0, 9}, "To be, or not to be");
}

}  // namespace rollcall
