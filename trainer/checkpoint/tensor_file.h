// Flat arrays of a model's size as a safetensors file, and back: one array for
// the weights, two for the optimizer's moments.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_TENSOR_FILE_H_
#define ROLLCALL_TRAINER_CHECKPOINT_TENSOR_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "trainer/checkpoint/hashed_file.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// One array; its tensors are called `prefix` and the layout's name.
template <typename Float>
struct TensorArray {
  std::string prefix;
  absl::Span<Float> values;  // Layout::size of them; to read a header: none.
};

// All of the file, up to Finish.
absl::Status WriteTensors(const GptLayout& layout,
                          absl::Span<const TensorArray<const float>> arrays,
                          HashedWriter& file);

// Reads the header alone and sees that it has exactly these tensors, in F32 and
// of the layout's shapes. DATA_LOSS: which tensor, which field, what was
// expected and what was found.
absl::Status CheckTensors(const GptLayout& layout,
                          const std::vector<std::string>& prefixes,
                          HashedReader& file);

// The same, and then the values, in whatever order they lie.
absl::Status ReadTensors(const GptLayout& layout,
                         absl::Span<const TensorArray<float>> arrays,
                         HashedReader& file);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_TENSOR_FILE_H_
