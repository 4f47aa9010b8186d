#include "trainer/data/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tokens are read in the byte order of a shard");

// Opens a regular file; an error has the reason.
absl::StatusOr<int> OpenFile(const std::string& path, uint64_t* bytes) {
  // Non-blocking, so that a FIFO is reported instead of blocking the call.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("--data ", path,
                            errno == EMFILE
                                ? ": every file stays open; raise `ulimit -n`"
                                : ""));
  }
  struct stat about;
  if (fstat(descriptor, &about) != 0) {
    const int error = errno;
    close(descriptor);
    return absl::ErrnoToStatus(error, absl::StrCat("--data ", path));
  }
  *bytes = about.st_size;
  if (S_ISREG(about.st_mode)) return descriptor;
  close(descriptor);
  if (S_ISDIR(about.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path, " is a directory, expected a file; for",
                     " all of its files: --data ", path, "/*"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--data ", path, " is not a regular file"));
}

absl::Status ReadBytes(int descriptor, const std::string& path, uint64_t size,
                       uint64_t at, char* out, size_t wanted) {
  while (wanted > 0) {
    const ssize_t got = pread(descriptor, out, wanted, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat(
          "--data ", path, " at byte ", at, " of ", size, ": ",
          got < 0 ? std::strerror(errno) : "the file has become shorter"));
    }
    out += got;
    at += got;
    wanted -= got;
  }
  return absl::OkStatus();
}

const char* KindName(DataKind kind) {
  return kind == DataKind::kShard ? "a token shard" : "bytes";
}

}  // namespace

absl::StatusOr<Dataset> Dataset::Open(const std::vector<std::string>& paths) {
  Dataset dataset;
  for (const std::string& path : paths) {
    if (absl::Status s = dataset.Add(path); !s.ok()) return s;
  }
  return dataset;
}

absl::Status Dataset::Add(const std::string& path) {
  uint64_t bytes = 0;
  const absl::StatusOr<int> descriptor = OpenFile(path, &bytes);
  if (!descriptor.ok()) return descriptor.status();
  files_.push_back({path, *descriptor, bytes, tokens_, 0});
  File& file = files_.back();

  std::string head(std::min<uint64_t>(bytes, kShardHeaderBytes), '\0');
  absl::Status status =
      ReadBytes(*descriptor, path, bytes, 0, head.data(), head.size());
  if (!status.ok()) return status;
  const absl::StatusOr<DataHeader> header =
      ReadDataHeader(head, bytes, absl::EndsWith(path, ".bin"));
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path, ": ", header.status().message()));
  }
  if (files_.size() == 1) kind_ = header->kind;
  if (header->kind != kind_) {
    return absl::InvalidArgumentError(
        absl::StrCat("--data ", path, ": expected ", KindName(kind_), " as ",
                     files_.front().path, " is, found ", KindName(header->kind),
                     "; the two kinds do not mix"));
  }
  file.tokens = header->tokens;
  tokens_ += file.tokens;
  return absl::OkStatus();
}

Dataset::Dataset(Dataset&& other) noexcept
    : files_(std::exchange(other.files_, {})),
      kind_(other.kind_),
      tokens_(std::exchange(other.tokens_, 0)) {}

Dataset::~Dataset() {
  for (const File& file : files_) close(file.descriptor);
}

int Dataset::vocabulary() const {
  return kind_ == DataKind::kShard ? kShardVocabulary : 256;
}

absl::string_view Dataset::unit() const {
  return kind_ == DataKind::kShard ? "tokens" : "bytes";
}

absl::Status Dataset::Read(uint64_t offset, absl::Span<Token> out) const {
  CHECK_LE(out.size(), tokens_);
  CHECK_LE(offset, tokens_ - out.size());
  auto file = std::upper_bound(
      files_.begin(), files_.end(), offset,
      [](uint64_t at, const File& f) { return at < f.begin + f.tokens; });
  for (; !out.empty(); ++file) {
    const uint64_t first = offset - file->begin;
    const size_t count = std::min<uint64_t>(out.size(), file->tokens - first);
    absl::Status status = ReadTokens(*file, first, out.subspan(0, count));
    if (!status.ok()) return status;
    out.remove_prefix(count);
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status Dataset::ReadTokens(const File& file, uint64_t first,
                                 absl::Span<Token> out) const {
  if (kind_ == DataKind::kShard) {
    const uint64_t at = kShardHeaderBytes + first * sizeof(Token);
    absl::Status status = ReadBytes(file.descriptor, file.path, file.bytes, at,
                                    reinterpret_cast<char*>(out.data()),
                                    out.size() * sizeof(Token));
    if (!status.ok()) return status;
    const auto wrong = std::find_if(
        out.begin(), out.end(), [](Token t) { return t >= kShardVocabulary; });
    if (wrong == out.end()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        "--data ", file.path, " at byte ",
        at + (wrong - out.begin()) * sizeof(Token), ": token: expected below ",
        kShardVocabulary, ", found ", *wrong));
  }
  // The bytes are read into the second half of `out`, and then widened to
  // tokens.
  char* const bytes = reinterpret_cast<char*>(out.data()) + out.size();
  absl::Status status = ReadBytes(file.descriptor, file.path, file.bytes, first,
                                  bytes, out.size());
  if (!status.ok()) return status;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<unsigned char>(bytes[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Dataset::Fingerprint() const {
  uint64_t fingerprint = 0;
  std::string bytes;
  for (const File& file : files_) {
    bytes.resize(std::min<uint64_t>(file.bytes, 4096));
    fingerprint = Mix(fingerprint + file.bytes + 1);
    for (uint64_t from : {uint64_t{0}, file.bytes - bytes.size()}) {
      absl::Status s = ReadBytes(file.descriptor, file.path, file.bytes, from,
                                 bytes.data(), bytes.size());
      if (!s.ok()) return s;
      for (unsigned char byte : bytes) {
        fingerprint = Mix(fingerprint + byte + 1);
      }
    }
  }
  return fingerprint;
}

}  // namespace rollcall
