#include "trainer/data/corpus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/check.h"
#include "trainer/data/random.h"

namespace rollcall {
namespace {

// A regular file, open, or why not.
absl::StatusOr<int> OpenFile(const std::string& path, struct stat* about) {
  // Not blocking, so that a FIFO is told and not waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("--data ", path));
  }
  if (fstat(descriptor, about) != 0) {
    const int error = errno;
    close(descriptor);
    return absl::ErrnoToStatus(error, absl::StrCat("--data ", path));
  }
  if (S_ISREG(about->st_mode)) return descriptor;
  close(descriptor);
  if (S_ISDIR(about->st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path, " is a directory, expected a file; for",
                     " all of its files: --data ", path, "/*"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--data ", path, " is not a regular file"));
}

}  // namespace

absl::StatusOr<Corpus> Corpus::Open(const std::vector<std::string>& paths) {
  Corpus corpus;
  for (const std::string& path : paths) {
    struct stat about;
    absl::StatusOr<int> descriptor = OpenFile(path, &about);
    if (!descriptor.ok()) return descriptor.status();
    const uint64_t size = about.st_size;
    corpus.files_.push_back({path, *descriptor, corpus.size_, size});
    corpus.size_ += size;
  }
  return corpus;
}

Corpus::Corpus(Corpus&& other) noexcept
    : files_(std::exchange(other.files_, {})), size_(other.size_) {}

Corpus::~Corpus() {
  for (const File& file : files_) close(file.descriptor);
}

absl::Status Corpus::Read(uint64_t offset, absl::Span<uint8_t> out) const {
  CHECK_LE(out.size(), size_);
  CHECK_LE(offset, size_ - out.size());
  auto file = std::upper_bound(
      files_.begin(), files_.end(), offset,
      [](uint64_t at, const File& f) { return at < f.begin + f.size; });
  while (!out.empty()) {
    const uint64_t at = offset - file->begin;
    const size_t wanted = std::min<uint64_t>(out.size(), file->size - at);
    if (wanted == 0) {
      ++file;
      continue;
    }
    const ssize_t got = pread(file->descriptor, out.data(), wanted, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat(
          "--data ", file->path, " at byte ", at, " of ", file->size, ": ",
          got < 0 ? std::strerror(errno) : "the file has become shorter"));
    }
    out.remove_prefix(got);
    offset += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Corpus::Fingerprint() const {
  uint64_t fingerprint = 0;
  std::vector<uint8_t> bytes;
  for (const File& file : files_) {
    bytes.resize(std::min<uint64_t>(file.size, 4096));
    fingerprint = Mix(fingerprint + file.size + 1);
    for (uint64_t from : {file.begin, file.begin + file.size - bytes.size()}) {
      if (absl::Status s = Read(from, absl::MakeSpan(bytes)); !s.ok()) return s;
      for (uint8_t byte : bytes) fingerprint = Mix(fingerprint + byte + 1);
    }
  }
  return fingerprint;
}

}  // namespace rollcall
