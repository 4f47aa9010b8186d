// The safetensors format: eight bytes of length, then a JSON header with the
// type, shape and offsets of each tensor, then the contiguous data.
//
// Pure: headers are texts. Reading is safe for arbitrary input: every bound is
// checked, and the memory is at most a constant times the header's length.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_SAFETENSORS_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_SAFETENSORS_H_

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
  uint64_t begin = 0, end = 0;  // In bytes, from the beginning of the data.
};

// Every file begins with the header's length, in this many bytes.
inline constexpr size_t kSafeTensorsLengthBytes = 8;
// The limit for the header's length; our models' headers have at most a few
// hundred KB.
inline constexpr uint64_t kSafeTensorsHeaderMax = 4 << 20;

// Returns everything before the data: the length, and a header padded to a
// multiple of eight bytes. `tensors` are contiguous in this order.
std::string FormatSafeTensors(absl::Span<const SafeTensor> tensors);

// The header's length, from the file's first bytes and its size. DATA_LOSS: the
// message has what was expected and what was found.
absl::StatusOr<uint64_t> SafeTensorsHeaderBytes(absl::string_view first,
                                                uint64_t file_bytes);

// The tensors in the order of their data, which has `data_bytes` in total.
// DATA_LOSS: the message has the tensor, the field, what was expected and what
// was found.
absl::StatusOr<std::vector<SafeTensor>> ParseSafeTensors(
    absl::string_view header, uint64_t data_bytes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_SAFETENSORS_H_
