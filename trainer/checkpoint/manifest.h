// Manifest: which files make up a checkpoint, and what each must be to the bit.
//
// Pure: text in, text out.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_MANIFEST_H_
#define ROLLCALL_TRAINER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

struct ManifestFile {
  std::string name;  // Of a file in the checkpoint's folder.
  uint64_t bytes = 0;
  std::string sha256;  // 64 digits, in lower case.
};

struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files;

  // Null: there is none of that name.
  const ManifestFile* Find(absl::string_view name) const;

  static constexpr int kVersion = 1;
  static constexpr size_t kFilesMost = 64;
  static constexpr size_t kTextBytesMost = 64 << 10;
};

std::string FormatManifest(const Manifest& manifest);

// FAILED_PRECONDITION: of a newer version, which is named. DATA_LOSS: it is
// none, or damaged: the field, what was expected and what was found.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_MANIFEST_H_
