#include "trainer/checkpoint/files/tensor_file.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/checkpoint/files/json_text.h"
#include "trainer/checkpoint/files/safetensors.h"

namespace rollcall {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are written in memory's byte order");

absl::Status InFile(const HashedReader& file, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(file.path(), ": ", status.message()));
}

absl::Status CheckTensor(const SafeTensor& found, const Tensor& expected) {
  const std::string name = absl::StrCat("tensor ", Excerpt(found.name));
  if (found.dtype != "F32") {
    return WrongField(name + ".dtype", "F32", found.dtype);
  }
  if (std::equal(found.shape.begin(), found.shape.end(), expected.shape.begin(),
                 expected.shape.end(), [](uint64_t a, int b) {
                   return a == static_cast<unsigned>(b);
                 })) {
    return absl::OkStatus();
  }
  return WrongField(name + ".shape",
                    absl::StrCat("[", absl::StrJoin(expected.shape, ", "), "]"),
                    absl::StrCat("[", absl::StrJoin(found.shape, ", "), "]"));
}

// The array to which a tensor of the file belongs, and the tensor's place in
// it.
struct Place {
  size_t array;
  const Tensor* tensor;
};

// The tensors in the order of their data.
absl::StatusOr<std::vector<Place>> ReadHeader(
    const GptLayout& layout, const std::vector<std::string>& prefixes,
    HashedReader& file) {
  std::string text(std::min<uint64_t>(kSafeTensorsLengthBytes, file.left()),
                   '\0');
  absl::Status status = file.Read(text.data(), text.size());
  if (!status.ok()) return status;
  const absl::StatusOr<uint64_t> length =
      SafeTensorsHeaderBytes(text, file.bytes());
  if (!length.ok()) return InFile(file, length.status());
  text.resize(*length);
  if (status = file.Read(text.data(), text.size()); !status.ok()) return status;
  const absl::StatusOr<std::vector<SafeTensor>> found =
      ParseSafeTensors(text, file.left());
  if (!found.ok()) return InFile(file, found.status());

  std::map<std::string, Place> missing;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    for (const Tensor& tensor : layout.tensors) {
      missing.emplace(prefixes[i] + tensor.name, Place{i, &tensor});
    }
  }
  std::vector<Place> places;
  for (const SafeTensor& one : *found) {
    const auto expected = missing.find(one.name);
    if (expected == missing.end()) {
      return InFile(file, WrongField("header", "this model's tensors alone",
                                     Excerpt(one.name)));
    }
    status = CheckTensor(one, *expected->second.tensor);
    if (!status.ok()) return InFile(file, status);
    places.push_back(expected->second);
    missing.erase(expected);
  }
  if (missing.empty()) return places;
  return InFile(file, WrongField("header", "tensor " + missing.begin()->first,
                                 "no such tensor"));
}

}  // namespace

absl::Status WriteTensors(const GptLayout& layout,
                          absl::Span<const TensorArray<const float>> arrays,
                          HashedWriter& file) {
  std::vector<SafeTensor> tensors;
  uint64_t end = 0;
  for (const TensorArray<const float>& array : arrays) {
    for (const Tensor& tensor : layout.tensors) {
      SafeTensor& one = tensors.emplace_back();
      one.name = array.prefix + tensor.name;
      one.shape.assign(tensor.shape.begin(), tensor.shape.end());
      one.begin = end;
      one.end = end += tensor.size * sizeof(float);
    }
  }
  absl::Status status = file.Write(FormatSafeTensors(tensors));
  for (const TensorArray<const float>& array : arrays) {
    if (!status.ok()) return status;
    // The layout's tensors are contiguous, like the file's.
    status = file.Write({reinterpret_cast<const char*>(array.values.data()),
                         array.values.size() * sizeof(float)});
  }
  return status;
}

absl::Status CheckTensors(const GptLayout& layout,
                          const std::vector<std::string>& prefixes,
                          HashedReader& file) {
  return ReadHeader(layout, prefixes, file).status();
}

absl::Status ReadTensors(const GptLayout& layout,
                         absl::Span<const TensorArray<float>> arrays,
                         HashedReader& file) {
  std::vector<std::string> prefixes;
  for (const TensorArray<float>& array : arrays) {
    prefixes.push_back(array.prefix);
  }
  const absl::StatusOr<std::vector<Place>> places =
      ReadHeader(layout, prefixes, file);
  if (!places.ok()) return places.status();
  for (const Place& place : *places) {
    const absl::Span<float> values = arrays[place.array].values.subspan(
        place.tensor->offset, place.tensor->size);
    absl::Status status = file.Read(reinterpret_cast<char*>(values.data()),
                                    values.size() * sizeof(float));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace rollcall
