// Manifest: the files of a checkpoint, with their exact sizes and hashes.
//
// Pure: text in, text out.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_MANIFEST_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

struct ManifestFile {
  std::string name;  // In the checkpoint's folder.
  uint64_t bytes = 0;
  std::string sha256;  // 64 hex digits, lower case.
};

struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files;

  // Null: no file has that name.
  const ManifestFile* Find(absl::string_view name) const;

  static constexpr int kVersion = 1;
  static constexpr size_t kFilesMax = 64;
  static constexpr size_t kTextBytesMax = 64 << 10;
};

std::string FormatManifest(const Manifest& manifest);

// FAILED_PRECONDITION: a newer version wrote it; the message names the version.
// DATA_LOSS: it is not a manifest, or it is damaged; the message has the field,
// what was expected and what was found.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_MANIFEST_H_
