// Dataset: files as one long string of tokens, end to end.
//
// Either any files, whose bytes are the tokens, or token shards as llm.c writes
// them, of GPT-2's vocabulary: a header of 256 numbers of 32 bits (20240520,
// version 1, the count of tokens, zeros), then 16 bits a token, all of it
// little-endian. A shard is known by its first number, whatever it is called;
// the two kinds do not mix.
//
// Files are opened once, stay in the system's page cache alone, and are read
// where a sample needs them. By pread and not through a mapping: of a file that
// has shrunk a mapping gives zeros to the end of the page and then SIGBUS,
// whenever its size was looked at, but pread says how much there was. A file's
// size is what it was when it was opened.
//
// Thread rule: Read and Fingerprint from any thread.
#ifndef ROLLCALL_TRAINER_DATA_DATASET_H_
#define ROLLCALL_TRAINER_DATA_DATASET_H_

#include <cstdint>
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
  // In the order given. NOT_FOUND, PERMISSION_DENIED, ...: as the system says.
  // INVALID_ARGUMENT: no regular file, a shard that is damaged or of a kind
  // that is not read here, or files of both kinds; which file, which field,
  // what was expected and what was found.
  static absl::StatusOr<Dataset> Open(const std::vector<std::string>& paths);

  Dataset(Dataset&& other) noexcept;
  Dataset& operator=(Dataset&&) = delete;
  ~Dataset();

  uint64_t tokens() const { return tokens_; }
  // Every token is below it.
  int vocabulary() const;
  absl::string_view unit() const;  // "bytes" or "tokens".

  // Fills `out` from the token at `offset`, which together must lie within
  // tokens(). DATA_LOSS: a file has become shorter, cannot be read, or holds a
  // token that is not of the vocabulary; which file, and where.
  absl::Status Read(uint64_t offset, absl::Span<Token> out) const;

  // A number that two datasets of the same files share, and others hardly: of
  // sizes and of the bytes at each file's start and end.
  absl::StatusOr<uint64_t> Fingerprint() const;

 private:
  struct File {
    std::string path;
    int descriptor;
    uint64_t bytes;
    uint64_t begin;   // Of its first token in the dataset.
    uint64_t tokens;  // In this file.
  };

  Dataset() = default;
  absl::Status Add(const std::string& path);
  absl::Status ReadTokens(const File& file, uint64_t first,
                          absl::Span<Token> out) const;

  std::vector<File> files_;
  DataKind kind_ = DataKind::kBytes;
  uint64_t tokens_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_DATASET_H_
