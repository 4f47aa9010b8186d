#include "client/launch/render/platform_names.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

constexpr size_t kLabelBytesMax = 63;
constexpr size_t kSubdomainBytesMax = 253;
// Docker allows 255 bytes for the name and 128 for the tag; a digest has 71.
constexpr size_t kImageBytesMax = 512;

bool IsLower(unsigned char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c);
}

// [a-z0-9] at both ends, [a-z0-9-] between them.
bool IsLabel(absl::string_view text) {
  return !text.empty() && text.size() <= kLabelBytesMax &&
         IsLower(static_cast<unsigned char>(text.front())) &&
         IsLower(static_cast<unsigned char>(text.back())) &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return IsLower(c) || c == '-'; });
}

absl::Status Wrong(absl::string_view flag, absl::string_view expected,
                   const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": expected ", expected, ", found '", Printable(found, 80), "'"));
}

}  // namespace

absl::Status CheckObjectName(const std::string& name, size_t suffix_bytes) {
  const bool letter =
      !name.empty() && absl::ascii_islower(static_cast<unsigned char>(name[0]));
  if (!letter || !IsLabel(name)) {
    return Wrong("--job",
                 "an RFC 1035 label, as Kubernetes names a service: a-z, 0-9 "
                 "and -, a letter first, at most 63, and no - last",
                 name);
  }
  const size_t bytes_max = kLabelBytesMax - suffix_bytes;
  if (name.size() <= bytes_max) return absl::OkStatus();
  return Wrong("--job",
               absl::StrCat("at most ", bytes_max,
                            " bytes, so that the names of its pods have 63"),
               name);
}

absl::Status CheckSecretName(const std::string& name) {
  const std::vector<absl::string_view> labels = absl::StrSplit(name, '.');
  if (name.size() <= kSubdomainBytesMax &&
      std::all_of(labels.begin(), labels.end(), IsLabel)) {
    return absl::OkStatus();
  }
  return Wrong("--secret-name",
               "an RFC 1123 subdomain: labels of a-z, 0-9 and - with dots "
               "between them, at most 253 bytes",
               name);
}

absl::Status CheckImageName(const std::string& name) {
  const bool good =
      !name.empty() && name.size() <= kImageBytesMax &&
      absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
      absl::ascii_isalnum(static_cast<unsigned char>(name.back())) &&
      !absl::StrContains(name, "//") &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || absl::StrContains("._/:@-", c);
      });
  if (good) return absl::OkStatus();
  return Wrong("--image", "an image such as registry.example/train:1", name);
}

}  // namespace rollcall
