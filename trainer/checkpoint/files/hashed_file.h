// HashedWriter and HashedReader: write or read one file of a checkpoint from
// start to end, and compute its hash.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_FILES_HASHED_FILE_H_
#define ROLLCALL_TRAINER_CHECKPOINT_FILES_HASHED_FILE_H_

#include <openssl/evp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/checkpoint/files/disk_calls.h"
#include "trainer/checkpoint/files/manifest.h"

namespace rollcall {

// SHA-256 of bytes that are added piece by piece.
class Sha256Stream {
 public:
  Sha256Stream();
  void Add(absl::string_view bytes);
  // Returns 64 hex digits; call it once. RESOURCE_EXHAUSTED: OpenSSL had no
  // memory.
  absl::StatusOr<std::string> Finish();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  bool good_;
};

// Errors name the path and have the system's reason. After an error the file
// stays; the caller removes it.
class HashedWriter {
 public:
  // Creates FOLDER/NAME, and truncates an existing file.
  static absl::StatusOr<HashedWriter> Create(const DiskCalls& calls,
                                             const std::string& folder,
                                             const std::string& name);
  HashedWriter(HashedWriter&& other) noexcept;
  HashedWriter& operator=(HashedWriter&&) = delete;
  ~HashedWriter();

  absl::Status Write(absl::string_view bytes);
  // When it returns, the file is safe on the disk.
  absl::StatusOr<ManifestFile> Finish();

 private:
  HashedWriter(const DiskCalls& calls, std::string path, std::string name,
               int file);

  const DiskCalls& calls_;
  const std::string path_;
  int file_;
  ManifestFile written_;
  Sha256Stream hash_;
};

// Errors name the path. DATA_LOSS: the file does not match `expected`; the
// message names the field. Other errors have the system's reason.
class HashedReader {
 public:
  // Opens the file and checks its size.
  static absl::StatusOr<HashedReader> Open(const std::string& folder,
                                           const ManifestFile& expected);
  HashedReader(HashedReader&& other) noexcept;
  HashedReader& operator=(HashedReader&&) = delete;
  ~HashedReader();

  // Reads exactly the next `bytes` bytes.
  absl::Status Read(char* to, size_t bytes);
  // Reads the rest of the file and compares the hash.
  absl::Status Finish();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return expected_.bytes; }
  uint64_t left() const { return left_; }

 private:
  HashedReader(std::string path, const ManifestFile& expected, int file);

  const std::string path_;
  const ManifestFile expected_;
  int file_;
  uint64_t left_;
  Sha256Stream hash_;
};

// Reads a whole small file. DATA_LOSS: it is longer than `bytes_max`. Other
// errors have the system's reason.
absl::StatusOr<std::string> ReadCheckpointFile(const std::string& path,
                                               size_t bytes_max);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_FILES_HASHED_FILE_H_
