#include "trainer/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

absl::Status InRange(const char* name, int value, int max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " ", value, ": expected 1 to ", max));
}

// Approximately normal with standard deviation 1: the sum of twelve uniform
// numbers. The result is exact in float arithmetic: an integer below 2^36,
// shifted and scaled.
float Normal(Random& random) {
  int64_t sum = 0;
  for (int i = 0; i < 6; ++i) {
    const uint64_t bits = random.Next();
    sum += static_cast<int64_t>(bits >> 32);
    sum += static_cast<int64_t>(bits & 0xffffffffu);
  }
  sum -= int64_t{6} << 32;
  return static_cast<float>(sum) * 0x1p-32f;
}

}  // namespace

absl::Status GptConfig::Validate() const {
  for (absl::Status s :
       {InRange("layers", layers, kLayersMax),
        InRange("width", width, kWidthMax), InRange("heads", heads, width),
        InRange("context", context, kContextMax),
        InRange("vocabulary", vocabulary, kVocabularyMax)}) {
    if (!s.ok()) return s;
  }
  if (width % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--width ", width, " is not a multiple of --heads ", heads,
                     ": every head gets the same share of the width"));
  }
  return absl::OkStatus();
}

GptLayout::GptLayout(const GptConfig& config) {
  const int c = config.width;
  token_table = Add("wte.weight", {config.vocabulary, c});
  position_table = Add("wpe.weight", {config.context, c});
  for (int i = 0; i < config.layers; ++i) {
    const std::string h = absl::StrCat("h.", i, ".");
    BlockLayout& b = blocks.emplace_back();
    b.norm1_gain = Add(h + "ln_1.weight", {c});
    b.norm1_bias = Add(h + "ln_1.bias", {c});
    b.qkv_weight = Add(h + "attn.c_attn.weight", {c, 3 * c});
    b.qkv_bias = Add(h + "attn.c_attn.bias", {3 * c});
    b.merge_weight = Add(h + "attn.c_proj.weight", {c, c});
    b.merge_bias = Add(h + "attn.c_proj.bias", {c});
    b.norm2_gain = Add(h + "ln_2.weight", {c});
    b.norm2_bias = Add(h + "ln_2.bias", {c});
    b.up_weight = Add(h + "mlp.c_fc.weight", {c, 4 * c});
    b.up_bias = Add(h + "mlp.c_fc.bias", {4 * c});
    b.down_weight = Add(h + "mlp.c_proj.weight", {4 * c, c});
    b.down_bias = Add(h + "mlp.c_proj.bias", {c});
  }
  norm_gain = Add("ln_f.weight", {c});
  norm_bias = Add("ln_f.bias", {c});
}

size_t GptLayout::Add(std::string name, std::vector<int> shape) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.offset = size;
  tensor.size = 1;
  for (int n : tensor.shape) tensor.size *= n;
  size += tensor.size;
  tensors.push_back(std::move(tensor));
  return tensors.back().offset;
}

void InitializeWeights(const GptConfig& config, const GptLayout& layout,
                       uint64_t seed, absl::Span<float> weights) {
  CHECK_EQ(weights.size(), layout.size);
  Random random(seed);
  const float deep = 0.02f / std::sqrt(2.0f * config.layers);
  for (const Tensor& tensor : layout.tensors) {
    absl::Span<float> values = weights.subspan(tensor.offset, tensor.size);
    if (!tensor.decays()) {
      const bool gain = absl::EndsWith(tensor.name, ".weight");
      std::fill(values.begin(), values.end(), gain ? 1.0f : 0.0f);
      continue;
    }
    const bool residual = absl::EndsWith(tensor.name, "c_proj.weight");
    for (float& value : values) {
      value = (residual ? deep : 0.02f) * Normal(random);
    }
  }
}

}  // namespace rollcall
