#include "trainer/checkpoint/files/manifest.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trainer/checkpoint/files/json_text.h"

namespace rollcall {
namespace {

constexpr size_t kNameBytesMax = 255;

// Whether `name` is a plain file name, without a folder.
bool IsFileName(absl::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  for (const char c : name) {
    if (c == '/' || static_cast<unsigned char>(c) < ' ') return false;
  }
  return true;
}

bool IsSha256(absl::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

absl::StatusOr<ManifestFile> ParseFile(const Json& json, size_t which) {
  const std::string prefix = absl::StrCat("files[", which, "].");
  ManifestFile file;
  JsonFields fields(json, prefix);
  fields.Take("name", kNameBytesMax, file.name);
  fields.Take("bytes", 0, INT64_MAX, file.bytes);
  fields.Take("sha256", 64, file.sha256);
  if (absl::Status s = fields.Finish(); !s.ok()) return s;
  if (!IsFileName(file.name)) {
    return WrongField(prefix + "name", "the name of a file in this folder",
                      Excerpt(file.name));
  }
  if (!IsSha256(file.sha256)) {
    return WrongField(prefix + "sha256", "64 digits of 0-9 and a-f",
                      Excerpt(file.sha256));
  }
  return file;
}

}  // namespace

const ManifestFile* Manifest::Find(absl::string_view name) const {
  for (const ManifestFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string FormatManifest(const Manifest& manifest) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  const nlohmann::ordered_json json = {{"version", Manifest::kVersion},
                                       {"step", manifest.step},
                                       {"files", std::move(files)}};
  return json.dump(1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseJson(text);
  if (!json.ok()) return json.status();
  Manifest manifest;
  JsonFields fields(*json);
  const absl::StatusOr<int> version = fields.TakeVersion(Manifest::kVersion);
  if (!version.ok()) return version.status();
  fields.Take("step", 0, INT64_MAX, manifest.step);
  const Json* files = fields.TakeArray("files", Manifest::kFilesMax);
  if (absl::Status s = fields.Finish(); !s.ok()) return s;
  for (const Json& one : *files) {
    absl::StatusOr<ManifestFile> file = ParseFile(one, manifest.files.size());
    if (!file.ok()) return file.status();
    if (manifest.Find(file->name) != nullptr) {
      return WrongField(Excerpt(file->name), "once in files", "twice");
    }
    manifest.files.push_back(*std::move(file));
  }
  return manifest;
}

}  // namespace rollcall
