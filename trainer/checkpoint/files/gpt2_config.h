// config.json, in the form of transformers' GPT2Config: what transformers needs
// to load a checkpoint's model, and the shape of the model that a training
// begins with (--init-from).
//
// Pure, and safe for arbitrary input.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_GPT2_CONFIG_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_GPT2_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/model/parameters.h"

namespace rollcall {

std::string FormatGpt2Config(const GptConfig& config);

// The model that a config.json describes; it is valid. DATA_LOSS: the text is
// not JSON. INVALID_ARGUMENT: it is no GPT-2, or one that this trainer computes
// otherwise; the message names the field.
absl::StatusOr<GptConfig> ParseGpt2Config(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_GPT2_CONFIG_H_
