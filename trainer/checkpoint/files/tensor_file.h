// Writes flat arrays of the model's size as a safetensors file, and reads them
// back: one array for the weights, two for the optimizer's moments.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_TENSOR_FILE_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_TENSOR_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "trainer/checkpoint/files/hashed_file.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// One array. The names of its tensors are `prefix` + the layout's names.
template <typename Float>
struct TensorArray {
  std::string prefix;
  absl::Span<Float> values;  // Layout::size values; empty: header only.
};

// Writes the file's contents; the caller must call Finish.
absl::Status WriteTensors(const GptLayout& layout,
                          absl::Span<const TensorArray<const float>> arrays,
                          HashedWriter& file);

// Reads only the header and checks that it has exactly these tensors, with
// dtype F32 and the layout's shapes. DATA_LOSS: the message has the tensor, the
// field, what was expected and what was found.
absl::Status CheckTensors(const GptLayout& layout,
                          const std::vector<std::string>& prefixes,
                          HashedReader& file);

// Does the same and also reads the values. The tensors may be in any order.
absl::Status ReadTensors(const GptLayout& layout,
                         absl::Span<const TensorArray<float>> arrays,
                         HashedReader& file);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_TENSOR_FILE_H_
