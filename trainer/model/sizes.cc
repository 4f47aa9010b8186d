#include "trainer/model/sizes.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

struct Size {
  const char* name;
  int layers, heads, width, context;
  float learning_rate;
};

constexpr GptConfig kNano;
constexpr Size kSizes[] = {
    {"gpt2-nano", kNano.layers, kNano.heads, kNano.width, kNano.context, 3e-3f},
    {"gpt2", 12, 12, 768, 1024, 6e-4f},
    {"gpt2-medium", 24, 16, 1024, 1024, 3e-4f},
    {"gpt2-large", 36, 20, 1280, 1024, 2.5e-4f},
};

}  // namespace

std::string SizeNames() {
  std::string names;
  for (const Size& size : kSizes) {
    const bool last = &size == std::end(kSizes) - 1;
    absl::StrAppend(&names,
                    names.empty() ? ""
                    : last        ? " or "
                                  : ", ",
                    size.name);
  }
  return names;
}

absl::StatusOr<GptConfig> ConfigOf(absl::string_view name, int vocabulary) {
  if (vocabulary != kByteVocabulary && vocabulary != kGpt2Vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a vocabulary of ", vocabulary, ": expected ", kByteVocabulary,
        " (bytes) or ", kGpt2Vocabulary, " (GPT-2's tokens)"));
  }
  for (const Size& size : kSizes) {
    if (name != size.name) continue;
    return GptConfig{size.layers, size.heads, size.width, size.context,
                     vocabulary};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no model is called '", name, "': expected ", SizeNames()));
}

std::optional<float> LearningRateOf(absl::string_view name) {
  for (const Size& size : kSizes) {
    if (name == size.name) return size.learning_rate;
  }
  return std::nullopt;
}

std::string NearestSize(const GptConfig& model) {
  const Size* nearest = kSizes;
  for (const Size& size : kSizes) {
    if (size.width <= model.width) nearest = &size;
  }
  return nearest->name;
}

}  // namespace rollcall
