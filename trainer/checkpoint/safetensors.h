// The safetensors format: eight bytes of length, a header in JSON that says of
// each tensor its kind, shape and place, and then the data, end to end.
//
// Pure: headers as text. Reading is made for whatever bytes there are: every
// bound is checked, and no more memory is taken than the header is long, times
// some constant.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_SAFETENSORS_H_
#define ROLLCALL_TRAINER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace rollcall {

struct SafeTensor {
  std::string name;
  std::string dtype = "F32";
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // In bytes, from where the data begin.
};

// The length that every such file begins with.
inline constexpr size_t kSafeTensorsLengthBytes = 8;
// Of the header; of a model of ours it has some hundred KB at most.
inline constexpr uint64_t kSafeTensorsHeaderMost = 4 << 20;

// What stands before the data: the length, and a header that ends where eight
// divides. `tensors` lie end to end in this order.
std::string FormatSafeTensors(absl::Span<const SafeTensor> tensors);

// The header's length, by the file's first bytes and its size. DATA_LOSS: what
// was expected and what was found.
absl::StatusOr<uint64_t> SafeTensorsHeaderBytes(absl::string_view first,
                                                uint64_t file_bytes);

// The tensors in the order of their data, which have `data_bytes` in all.
// DATA_LOSS: which tensor, which field, what was expected and what was found.
absl::StatusOr<std::vector<SafeTensor>> ParseSafeTensors(
    absl::string_view header, uint64_t data_bytes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_SAFETENSORS_H_
