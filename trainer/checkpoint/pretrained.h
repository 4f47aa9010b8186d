// A GPT-2 in Hugging Face's form: a folder with config.json and
// model.safetensors, from which a training can begin (--init-from).
//
// Tensor names may have the prefix "transformer."; the masks that older
// versions of transformers saved, and the tied output matrix, are skipped.
// Values may be F32, F16 or BF16.
//
// Thread rule: any thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_PRETRAINED_H_
#define ROLLCALL_TRAINER_CHECKPOINT_PRETRAINED_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// Reads FOLDER/config.json. Errors: those of ParseGpt2Config and of reading;
// they name the file.
absl::StatusOr<GptConfig> ReadGpt2Config(const std::string& folder);

// Reads the weights in the order of the layout; `weights` has GptLayout::size
// values. Errors name the file, and what was expected and found. After an error
// the contents of `weights` are undefined.
absl::Status LoadPretrained(const std::string& folder, const GptConfig& model,
                            absl::Span<float> weights);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_PRETRAINED_H_
