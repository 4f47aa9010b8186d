#include "trainer/checkpoint/files/safetensors.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/checkpoint/files/json_text.h"

namespace rollcall {
namespace {

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kDimensionsMax = 16;

struct Dtype {
  const char* name;
  uint64_t bytes;
};
constexpr Dtype kDtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

// Bytes per element; 0: the dtype is unknown.
uint64_t ElementBytes(const std::string& dtype) {
  for (const Dtype& known : kDtypes) {
    if (dtype == known.name) return known.bytes;
  }
  return 0;
}

// Sets `bytes` to the bytes of all elements; false: the number does not fit
// into 64 bits.
bool ShapeBytes(const std::vector<uint64_t>& shape, uint64_t element,
                uint64_t* bytes) {
  *bytes = element;
  for (const uint64_t n : shape) {
    if (__builtin_mul_overflow(*bytes, n, bytes)) return false;
  }
  return true;
}

void TakeNumbers(JsonFields& fields, const std::string& prefix,
                 const char* field, size_t max, std::vector<uint64_t>& to) {
  const Json* list = fields.TakeArray(field, max);
  if (list == nullptr) return;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned()) {
      fields.Fail(
          WrongField(prefix + field, "numbers of 64 bits", "something else"));
      return;
    }
    to.push_back(number.get<uint64_t>());
  }
}

absl::StatusOr<SafeTensor> ParseTensor(const std::string& name,
                                       const Json& json, uint64_t data_bytes) {
  const std::string prefix = absl::StrCat("tensor ", Excerpt(name), ".");
  SafeTensor tensor;
  tensor.name = name;
  std::vector<uint64_t> offsets;
  JsonFields fields(json, prefix);
  fields.Take("dtype", 16, tensor.dtype);
  TakeNumbers(fields, prefix, "shape", kDimensionsMax, tensor.shape);
  TakeNumbers(fields, prefix, "data_offsets", 2, offsets);
  if (absl::Status s = fields.Finish(); !s.ok()) return s;

  const uint64_t element = ElementBytes(tensor.dtype);
  if (element == 0) {
    return WrongField(prefix + "dtype", "one that is known",
                      Excerpt(tensor.dtype));
  }
  const std::string found = absl::StrJoin(offsets, " to ");
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      offsets[1] > data_bytes) {
    return WrongField(prefix + "data_offsets",
                      absl::StrCat("from and to within 0 to ", data_bytes),
                      found.empty() ? "none" : found);
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  uint64_t bytes = 0;
  if (!ShapeBytes(tensor.shape, element, &bytes) ||
      bytes != tensor.end - tensor.begin) {
    return WrongField(
        prefix + "shape",
        absl::StrCat(tensor.end - tensor.begin, " bytes as its data have"),
        absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "] of ",
                     tensor.dtype));
  }
  return tensor;
}

absl::Status CheckMetadata(const Json& json) {
  if (!json.is_object()) {
    return WrongField(kMetadata, "an object", "something else");
  }
  for (const auto& entry : json) {
    if (entry.is_string()) continue;
    return WrongField(kMetadata, "texts alone", "something else");
  }
  return absl::OkStatus();
}

// The tensors' data must be contiguous, from the first byte to the last.
absl::Status CheckPlaces(const std::vector<SafeTensor>& tensors,
                         uint64_t data_bytes) {
  uint64_t end = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.begin != end) {
      return WrongField(
          absl::StrCat("tensor ", Excerpt(tensor.name), ".data_offsets"),
          absl::StrCat("data from ", end, " on, where those before end"),
          absl::StrCat(tensor.begin));
    }
    end = tensor.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return WrongField("data", absl::StrCat(end, " bytes, as the tensors have"),
                    absl::StrCat(data_bytes));
}

}  // namespace

std::string FormatSafeTensors(absl::Span<const SafeTensor> tensors) {
  nlohmann::ordered_json header;
  header[kMetadata] = {{"format", "pt"}};
  for (const SafeTensor& tensor : tensors) {
    // Appended without a search for the key, which would take quadratic time in
    // total.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        tensor.name,
        nlohmann::ordered_json{{"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"data_offsets", {tensor.begin, tensor.end}}});
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) {
    length += static_cast<char>(uint64_t{text.size()} >> (8 * i));
  }
  return length + text;
}

absl::StatusOr<uint64_t> SafeTensorsHeaderBytes(absl::string_view first,
                                                uint64_t file_bytes) {
  if (first.size() < kSafeTensorsLengthBytes ||
      file_bytes < kSafeTensorsLengthBytes) {
    return WrongField("header length", "8 bytes",
                      absl::StrCat("a file of ", file_bytes));
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(first[i]);
  }
  const uint64_t max =
      std::min(kSafeTensorsHeaderMax, file_bytes - kSafeTensorsLengthBytes);
  if (length < 2 || length > max) {
    return WrongField(
        "header length",
        absl::StrCat("2 to ", max, " in a file of ", file_bytes, " bytes"),
        absl::StrCat(length));
  }
  return length;
}

absl::StatusOr<std::vector<SafeTensor>> ParseSafeTensors(
    absl::string_view header, uint64_t data_bytes) {
  if (header.empty() || header[0] != '{') {
    return WrongField("header", "JSON that begins with {",
                      Excerpt(header.substr(0, 8)));
  }
  const absl::StatusOr<Json> json = ParseJson(header);
  if (!json.ok()) {
    return absl::DataLossError(
        absl::StrCat("header: ", json.status().message()));
  }
  std::vector<SafeTensor> tensors;
  for (auto entry = json->begin(); entry != json->end(); ++entry) {
    if (entry.key() == kMetadata) {
      if (absl::Status s = CheckMetadata(*entry); !s.ok()) return s;
      continue;
    }
    absl::StatusOr<SafeTensor> tensor =
        ParseTensor(entry.key(), *entry, data_bytes);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  // An empty tensor must come before the tensor that begins at the same offset.
  std::sort(tensors.begin(), tensors.end(),
            [](const SafeTensor& a, const SafeTensor& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  if (absl::Status s = CheckPlaces(tensors, data_bytes); !s.ok()) return s;
  return tensors;
}

}  // namespace rollcall
