#include "trainer/checkpoint/pretrained.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "trainer/checkpoint/files/gpt2_config.h"
#include "trainer/checkpoint/files/hashed_file.h"
#include "trainer/checkpoint/files/json_text.h"
#include "trainer/checkpoint/files/safetensors.h"

namespace rollcall {
namespace {

constexpr char kPretrainedConfig[] = "config.json";
constexpr char kPretrainedWeights[] = "model.safetensors";
constexpr size_t kPretrainedConfigMax = 1 << 20;

absl::Status InPretrained(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

// --- Weights -----------------------------------------------------------------

// Binary16 to binary32; exact.
float FromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const int exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 1023;
  if (exponent == 0) {
    const float tiny = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -tiny : tiny;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// Buffers of older versions of transformers, and the output matrix, which is
// the token table.
bool IsSkipped(absl::string_view name) {
  return absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias") || name == "lm_head.weight";
}

class WeightsFile {
 public:
  explicit WeightsFile(std::string path)
      : path_(std::move(path)), file_(path_, std::ios::binary) {}

  // Reads `to` from the position `at`.
  absl::Status Read(uint64_t at, absl::Span<char> to) {
    file_.seekg(static_cast<std::streamoff>(at));
    if (file_.read(to.data(), static_cast<std::streamsize>(to.size()))) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(path_, ": cannot be read at byte ",
                                            at, ": expected ", to.size(),
                                            " more bytes"));
  }

  // Reads the header; sets `data` to where the values begin.
  absl::StatusOr<std::vector<SafeTensor>> Header(uint64_t* data) {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(path_, error);
    if (error) {
      return absl::NotFoundError(absl::StrCat(path_, ": ", error.message()));
    }
    std::string text(std::min<uint64_t>(kSafeTensorsLengthBytes, bytes), '\0');
    if (absl::Status s = Read(0, absl::MakeSpan(text)); !s.ok()) return s;
    const absl::StatusOr<uint64_t> length = SafeTensorsHeaderBytes(text, bytes);
    if (!length.ok()) return InPretrained(path_, length.status());
    text.resize(*length);
    absl::Status status = Read(kSafeTensorsLengthBytes, absl::MakeSpan(text));
    if (!status.ok()) return status;
    *data = kSafeTensorsLengthBytes + *length;
    absl::StatusOr<std::vector<SafeTensor>> tensors =
        ParseSafeTensors(text, bytes - *data);
    if (!tensors.ok()) return InPretrained(path_, tensors.status());
    return tensors;
  }

  absl::Status Values(const SafeTensor& tensor, uint64_t data,
                      absl::Span<float> to) {
    if (tensor.dtype == "F32") {
      return Read(data + tensor.begin, {reinterpret_cast<char*>(to.data()),
                                        to.size() * sizeof(float)});
    }
    std::vector<uint16_t> halves(to.size());
    absl::Status status =
        Read(data + tensor.begin, {reinterpret_cast<char*>(halves.data()),
                                   halves.size() * sizeof(uint16_t)});
    if (!status.ok()) return status;
    const bool brain = tensor.dtype == "BF16";
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = brain ? std::bit_cast<float>(uint32_t{halves[i]} << 16)
                    : FromHalf(halves[i]);
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  std::ifstream file_;
};

absl::Status CheckPretrained(const SafeTensor& found, const Tensor& expected) {
  const std::string name = absl::StrCat("tensor ", Excerpt(found.name));
  if (found.dtype != "F32" && found.dtype != "F16" && found.dtype != "BF16") {
    return WrongField(name + ".dtype", "F32, F16 or BF16", found.dtype);
  }
  const std::vector<uint64_t> shape(expected.shape.begin(),
                                    expected.shape.end());
  if (found.shape == shape) return absl::OkStatus();
  return WrongField(name + ".shape",
                    absl::StrCat("[", absl::StrJoin(shape, ", "), "]"),
                    absl::StrCat("[", absl::StrJoin(found.shape, ", "), "]"));
}

absl::Status CheckIsThere(const std::string& folder) {
  std::error_code ignored;
  const auto there = [&](const char* name) {
    return std::filesystem::is_regular_file(absl::StrCat(folder, "/", name),
                                            ignored);
  };
  if (there(kPretrainedWeights)) return absl::OkStatus();
  const char* found = "no such file";
  if (there("model.safetensors.index.json")) {
    found = "weights that are split over several files; save them as one file";
  } else if (there("pytorch_model.bin")) {
    found =
        "pytorch_model.bin; save the model again with transformers' "
        "save_pretrained(DIR, safe_serialization=True)";
  }
  return absl::NotFoundError(absl::StrCat(
      folder, ": expected ", kPretrainedWeights, ", found ", found));
}

}  // namespace

absl::StatusOr<GptConfig> ReadGpt2Config(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kPretrainedConfig);
  const absl::StatusOr<std::string> text =
      ReadCheckpointFile(path, kPretrainedConfigMax);
  if (!text.ok()) return text.status();
  absl::StatusOr<GptConfig> model = ParseGpt2Config(*text);
  if (!model.ok()) return InPretrained(path, model.status());
  return model;
}

absl::Status LoadPretrained(const std::string& folder, const GptConfig& model,
                            absl::Span<float> weights) {
  if (absl::Status s = CheckIsThere(folder); !s.ok()) return s;
  const std::string path = absl::StrCat(folder, "/", kPretrainedWeights);
  WeightsFile file(path);
  uint64_t data = 0;
  const absl::StatusOr<std::vector<SafeTensor>> found = file.Header(&data);
  if (!found.ok()) return found.status();
  const GptLayout layout(model);
  std::map<absl::string_view, const Tensor*> missing;
  for (const Tensor& tensor : layout.tensors) missing[tensor.name] = &tensor;
  for (const SafeTensor& one : *found) {
    const absl::string_view name = absl::StripPrefix(one.name, "transformer.");
    if (IsSkipped(name)) continue;
    const auto expected = missing.find(name);
    if (expected == missing.end()) {
      return InPretrained(
          path,
          WrongField("header", "each tensor of GPT-2 once", Excerpt(one.name)));
    }
    const Tensor& tensor = *expected->second;
    absl::Status status = CheckPretrained(one, tensor);
    if (!status.ok()) return InPretrained(path, status);
    status =
        file.Values(one, data, weights.subspan(tensor.offset, tensor.size));
    if (!status.ok()) return status;
    missing.erase(expected);
  }
  if (missing.empty()) return absl::OkStatus();
  return InPretrained(
      path,
      WrongField("header", absl::StrCat("tensor ", missing.begin()->first),
                 "no such tensor"));
}

}  // namespace rollcall
