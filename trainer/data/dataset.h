// Dataset: files as one sequence of tokens, in the order of the files.
//
// The files are either arbitrary files, whose bytes are the tokens, or token
// shards in llm.c's format with GPT-2's vocabulary: a header of 256 numbers of
// 32 bits (20240520, version 1, the count of tokens, zeros), then 16 bits per
// token, all little-endian. A shard is recognized by its first number; a
// file that is named like one (`.bin`) must be one. The two kinds cannot be
// mixed.
//
// Files are opened once and read at the positions that a sample needs; only the
// system's page cache caches them. They are read by pread instead of being
// mapped: if a file has shrunk, pread returns how much it read. A mapping would
// give zeros up to the end of the page and then SIGBUS, even if the size was
// checked just before. A file's size is its size when it was opened.
//
// Thread rule: Read, Prefetch and Fingerprint may be called from any thread.
#ifndef ROLLCALL_TRAINER_DATA_DATASET_H_
#define ROLLCALL_TRAINER_DATA_DATASET_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainer/data/shard_header.h"
#include "trainer/model/parameters.h"

namespace rollcall {

class Dataset {
 public:
  // Opens the files in this order. NOT_FOUND, PERMISSION_DENIED, ...: the
  // system's error. INVALID_ARGUMENT: not a regular file, a shard that is
  // damaged or of an unsupported kind, or files of both kinds; the message has
  // the file, the field, what was expected and what was found. `flag` is the
  // one that named the files, for the messages.
  static absl::StatusOr<Dataset> Open(const std::vector<std::string>& paths,
                                      absl::string_view flag = "--data");

  Dataset(Dataset&& other) noexcept;
  Dataset& operator=(Dataset&&) = delete;
  ~Dataset();

  uint64_t tokens() const { return tokens_; }
  // Every token is below this number.
  int vocabulary() const;
  absl::string_view unit() const;  // "bytes" or "tokens".
  // The path of a file that is also in `other`, under any name there.
  std::optional<std::string> FileIn(const Dataset& other) const;

  // Fills `out` with the tokens from `offset` on; the range must be within
  // tokens(). DATA_LOSS: a file has shrunk, cannot be read, or contains a token
  // outside the vocabulary; the message has the file and the position.
  absl::Status Read(uint64_t offset, absl::Span<Token> out) const;

  // Asks the system to read these tokens into its page cache, and does not wait
  // for it. The range must be within tokens(). Without effect where a file
  // system has no page cache.
  void Prefetch(uint64_t offset, size_t count) const;

  // A number that is equal for datasets with the same files. It is computed
  // from the size of each file and the 4 KiB at its start and at its end, so
  // files that differ only between these have the same number.
  absl::StatusOr<uint64_t> Fingerprint() const;

 private:
  struct File {
    std::string path;
    std::string name;  // The flag and the path, for messages.
    int descriptor;
    dev_t device;  // Together with `inode`: which file it is.
    ino_t inode;
    uint64_t bytes;
    uint64_t begin;   // The position of its first token in the dataset.
    uint64_t tokens;  // The number of tokens in this file.
  };

  Dataset() = default;
  absl::Status Add(const std::string& path);
  // Calls `each(file, first token there, how many)` for the files that hold a
  // range of tokens, up to an error.
  template <typename Each>
  absl::Status ForFiles(uint64_t offset, size_t count, const Each& each) const;
  absl::Status ReadTokens(const File& file, uint64_t first,
                          absl::Span<Token> out) const;

  std::string flag_;
  std::vector<File> files_;
  DataKind kind_ = DataKind::kBytes;
  uint64_t tokens_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_DATASET_H_
