// Corpus: text files as one long string of bytes.
//
// Files are opened once and read where a sample needs them; nothing is kept in
// memory, and a file that shrinks underneath is an error and not a crash. A
// file's size is what it was when it was opened.
//
// Thread rule: Read from any thread.
#ifndef ROLLCALL_TRAINER_DATA_CORPUS_H_
#define ROLLCALL_TRAINER_DATA_CORPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rollcall {

class Corpus {
 public:
  // In the order given. NOT_FOUND, PERMISSION_DENIED: as the system says;
  // INVALID_ARGUMENT: a directory or another thing that is not a file.
  static absl::StatusOr<Corpus> Open(const std::vector<std::string>& paths);

  Corpus(Corpus&& other) noexcept;
  Corpus& operator=(Corpus&&) = delete;
  ~Corpus();

  uint64_t size() const { return size_; }

  // Fills `out` from `offset`, which together must lie within size().
  // DATA_LOSS: a file has become shorter, or cannot be read.
  absl::Status Read(uint64_t offset, absl::Span<uint8_t> out) const;

  // A number that two corpora of the same files share, and others hardly: of
  // sizes and of the bytes at each file's start and end.
  absl::StatusOr<uint64_t> Fingerprint() const;

 private:
  struct File {
    std::string path;
    int descriptor;
    uint64_t begin;  // Of its first byte in the corpus.
    uint64_t size;
  };

  Corpus() = default;

  std::vector<File> files_;
  uint64_t size_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_CORPUS_H_
