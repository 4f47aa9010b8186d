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

// Opens a regular file; an error has the reason. `name`: the flag and the path.
absl::StatusOr<int> OpenFile(const std::string& name, const std::string& path,
                             struct stat* about) {
  // Non-blocking, so that a FIFO is reported instead of blocking the call.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat(name, errno == EMFILE
                               ? ": every file stays open; raise `ulimit -n`"
                               : ""));
  }
  if (fstat(descriptor, about) != 0) {
    const int error = errno;
    close(descriptor);
    return absl::ErrnoToStatus(error, name);
  }
  if (S_ISREG(about->st_mode)) return descriptor;
  close(descriptor);
  if (S_ISDIR(about->st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is a directory, expected a file; for all of its ",
                     "files: ", name, "/*"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not a regular file"));
}

absl::Status ReadBytes(int descriptor, const std::string& name, uint64_t size,
                       uint64_t at, char* out, size_t wanted) {
  while (wanted > 0) {
    const ssize_t got = pread(descriptor, out, wanted, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(absl::StrCat(
          name, " at byte ", at, " of ", size, ": ",
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

absl::StatusOr<Dataset> Dataset::Open(const std::vector<std::string>& paths,
                                      absl::string_view flag) {
  Dataset dataset;
  dataset.flag_ = std::string(flag);
  for (const std::string& path : paths) {
    if (absl::Status s = dataset.Add(path); !s.ok()) return s;
  }
  return dataset;
}

absl::Status Dataset::Add(const std::string& path) {
  const std::string name = absl::StrCat(flag_, " ", path);
  struct stat about;
  const absl::StatusOr<int> descriptor = OpenFile(name, path, &about);
  if (!descriptor.ok()) return descriptor.status();
  const uint64_t bytes = about.st_size;
  files_.push_back(
      {path, name, *descriptor, about.st_dev, about.st_ino, bytes, tokens_, 0});
  File& file = files_.back();

  std::string head(std::min<uint64_t>(bytes, kShardHeaderBytes), '\0');
  absl::Status status =
      ReadBytes(*descriptor, name, bytes, 0, head.data(), head.size());
  if (!status.ok()) return status;
  const absl::StatusOr<DataHeader> header =
      ReadDataHeader(head, bytes, absl::EndsWith(path, ".bin"));
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", header.status().message()));
  }
  if (files_.size() == 1) kind_ = header->kind;
  if (header->kind != kind_) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected ", KindName(kind_), " as ", files_.front().path,
        " is, found ", KindName(header->kind), "; the two kinds do not mix"));
  }
  file.tokens = header->tokens;
  tokens_ += file.tokens;
  return absl::OkStatus();
}

Dataset::Dataset(Dataset&& other) noexcept
    : flag_(std::move(other.flag_)),
      files_(std::exchange(other.files_, {})),
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

std::optional<std::string> Dataset::FileIn(const Dataset& other) const {
  for (const File& file : files_) {
    for (const File& theirs : other.files_) {
      if (file.device == theirs.device && file.inode == theirs.inode) {
        return file.path;
      }
    }
  }
  return std::nullopt;
}

template <typename Each>
absl::Status Dataset::ForFiles(uint64_t offset, size_t count,
                               const Each& each) const {
  CHECK_LE(count, tokens_);
  CHECK_LE(offset, tokens_ - count);
  auto file = std::upper_bound(
      files_.begin(), files_.end(), offset,
      [](uint64_t at, const File& f) { return at < f.begin + f.tokens; });
  for (; count > 0; ++file) {
    const uint64_t first = offset - file->begin;
    const size_t here = std::min<uint64_t>(count, file->tokens - first);
    absl::Status status = each(*file, first, here);
    if (!status.ok()) return status;
    count -= here;
    offset += here;
  }
  return absl::OkStatus();
}

absl::Status Dataset::Read(uint64_t offset, absl::Span<Token> out) const {
  return ForFiles(offset, out.size(),
                  [&](const File& file, uint64_t first, size_t count) {
                    const absl::Span<Token> piece = out.first(count);
                    out.remove_prefix(count);
                    return ReadTokens(file, first, piece);
                  });
}

void Dataset::Prefetch(uint64_t offset, size_t count) const {
  const bool shard = kind_ == DataKind::kShard;
  const uint64_t begin = shard ? kShardHeaderBytes : 0;
  const uint64_t each = shard ? sizeof(Token) : 1;
  (void)ForFiles(
      offset, count, [&](const File& file, uint64_t first, size_t here) {
        (void)posix_fadvise(
            file.descriptor, static_cast<off_t>(begin + first * each),
            static_cast<off_t>(here * each), POSIX_FADV_WILLNEED);
        return absl::OkStatus();
      });
}

absl::Status Dataset::ReadTokens(const File& file, uint64_t first,
                                 absl::Span<Token> out) const {
  if (kind_ == DataKind::kShard) {
    const uint64_t at = kShardHeaderBytes + first * sizeof(Token);
    absl::Status status = ReadBytes(file.descriptor, file.name, file.bytes, at,
                                    reinterpret_cast<char*>(out.data()),
                                    out.size() * sizeof(Token));
    if (!status.ok()) return status;
    const auto wrong = std::find_if(
        out.begin(), out.end(), [](Token t) { return t >= kShardVocabulary; });
    if (wrong == out.end()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        file.name, " at byte ", at + (wrong - out.begin()) * sizeof(Token),
        ": token: expected below ", kShardVocabulary, ", found ", *wrong));
  }
  // The bytes are read into the second half of `out`, and then widened to
  // tokens.
  char* const bytes = reinterpret_cast<char*>(out.data()) + out.size();
  absl::Status status = ReadBytes(file.descriptor, file.name, file.bytes, first,
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
      absl::Status s = ReadBytes(file.descriptor, file.name, file.bytes, from,
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
