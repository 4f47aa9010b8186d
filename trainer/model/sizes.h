// The sizes of GPT-2 by name: gpt2-nano, which a CPU trains in a minute, and
// the published sizes.
//
// Pure.
#ifndef ROLLCALL_TRAINER_MODEL_SIZES_H_
#define ROLLCALL_TRAINER_MODEL_SIZES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/model/parameters.h"

namespace rollcall {

inline constexpr int kByteVocabulary = 256;
inline constexpr int kGpt2Vocabulary = 50257;  // Tokens of GPT-2's BPE.

// "gpt2-nano, gpt2, gpt2-medium or gpt2-large".
std::string SizeNames();

// Returns a valid configuration. INVALID_ARGUMENT: no size has this name, or
// the vocabulary is neither of the two above; not to be retried.
absl::StatusOr<GptConfig> ConfigOf(absl::string_view name, int vocabulary);

// A peak learning rate that suits the size; nullopt: no size has this name. For
// the published sizes, that of the GPT-3 model of about this size (Brown et al.
// 2020, table 2.1).
std::optional<float> LearningRateOf(absl::string_view name);

// The largest size that is not wider than `model`; the smallest if all are.
std::string NearestSize(const GptConfig& model);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_SIZES_H_
