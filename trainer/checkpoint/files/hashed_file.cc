#include "trainer/checkpoint/files/hashed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// The bytes per write. Pieces of this size are hashed while they are in the
// processor's cache, and a full disk is noticed early.
constexpr size_t kPieceBytes = 4 << 20;

absl::Status SystemSays(const std::string& path, const char* doing) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", doing));
}

// Opens a regular file for reading; does not wait if it is a FIFO.
absl::StatusOr<int> OpenToRead(const std::string& path, uint64_t* bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return SystemSays(path, "cannot be opened");
  struct stat about;
  absl::Status status;
  if (fstat(file, &about) != 0) {
    status = SystemSays(path, "cannot be read");
  } else if (!S_ISREG(about.st_mode)) {
    status = absl::DataLossError(
        absl::StrCat(path, ": expected a file, found something else"));
  } else {
    *bytes = about.st_size;
    return file;
  }
  close(file);
  return status;
}

absl::Status ReadAll(int file, const std::string& path, char* to,
                     size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(file, to, std::min(bytes, size_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemSays(path, "cannot be read");
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, ": expected ", bytes,
                                              " more bytes, found its end"));
    }
    to += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

}  // namespace

// --- Sha256Stream ------------------------------------------------------------

Sha256Stream::Sha256Stream()
    : context_(EVP_MD_CTX_new()),
      good_(context_ != nullptr &&
            EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1) {}

void Sha256Stream::Add(absl::string_view bytes) {
  good_ = good_ &&
          EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
}

absl::StatusOr<std::string> Sha256Stream::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (!std::exchange(good_, false) ||
      EVP_DigestFinal_ex(context_.get(), digest, &size) != 1) {
    return absl::ResourceExhaustedError("SHA-256: no memory");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

// --- HashedWriter ------------------------------------------------------------

absl::StatusOr<HashedWriter> HashedWriter::Create(const DiskCalls& calls,
                                                  const std::string& folder,
                                                  const std::string& name) {
  std::string path = absl::StrCat(folder, "/", name);
  const int file = calls.create(path);
  if (file < 0) return SystemSays(path, "cannot be made");
  return HashedWriter(calls, std::move(path), name, file);
}

HashedWriter::HashedWriter(const DiskCalls& calls, std::string path,
                           std::string name, int file)
    : calls_(calls), path_(std::move(path)), file_(file) {
  written_.name = std::move(name);
}

HashedWriter::HashedWriter(HashedWriter&& other) noexcept
    : calls_(other.calls_),
      path_(other.path_),
      file_(std::exchange(other.file_, -1)),
      written_(std::move(other.written_)),
      hash_(std::move(other.hash_)) {}

HashedWriter::~HashedWriter() {
  if (file_ >= 0) close(file_);
}

absl::Status HashedWriter::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote =
        calls_.write(file_, bytes.data(), std::min(bytes.size(), kPieceBytes));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote == 0) errno = EIO;  // The call made no progress and set no error.
    if (wrote <= 0) {
      return SystemSays(
          path_,
          absl::StrCat("cannot be written at byte ", written_.bytes).c_str());
    }
    hash_.Add(bytes.substr(0, wrote));
    written_.bytes += wrote;
    bytes.remove_prefix(wrote);
  }
  return absl::OkStatus();
}

absl::StatusOr<ManifestFile> HashedWriter::Finish() {
  if (calls_.sync(file_) != 0) return SystemSays(path_, "cannot be synced");
  // A network file system may report only at close that the disk is full.
  if (close(std::exchange(file_, -1)) != 0) {
    return SystemSays(path_, "cannot be closed");
  }
  absl::StatusOr<std::string> hash = hash_.Finish();
  if (!hash.ok()) return hash.status();
  written_.sha256 = *std::move(hash);
  return written_;
}

// --- HashedReader ------------------------------------------------------------

absl::StatusOr<HashedReader> HashedReader::Open(const std::string& folder,
                                                const ManifestFile& expected) {
  std::string path = absl::StrCat(folder, "/", expected.name);
  uint64_t bytes = 0;
  const absl::StatusOr<int> file = OpenToRead(path, &bytes);
  if (!file.ok()) return file.status();
  if (bytes == expected.bytes) {
    return HashedReader(std::move(path), expected, *file);
  }
  close(*file);
  return absl::DataLossError(absl::StrCat(path, ": bytes: expected ",
                                          expected.bytes, ", found ", bytes));
}

HashedReader::HashedReader(std::string path, const ManifestFile& expected,
                           int file)
    : path_(std::move(path)),
      expected_(expected),
      file_(file),
      left_(expected.bytes) {}

HashedReader::HashedReader(HashedReader&& other) noexcept
    : path_(other.path_),
      expected_(other.expected_),
      file_(std::exchange(other.file_, -1)),
      left_(other.left_),
      hash_(std::move(other.hash_)) {}

HashedReader::~HashedReader() {
  if (file_ >= 0) close(file_);
}

absl::Status HashedReader::Read(char* to, size_t bytes) {
  if (bytes > left_) {
    return absl::DataLossError(absl::StrCat(path_, ": expected ", bytes,
                                            " more bytes, found ", left_));
  }
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPieceBytes);
    if (absl::Status s = ReadAll(file_, path_, to, piece); !s.ok()) return s;
    hash_.Add({to, piece});
    to += piece;
    bytes -= piece;
    left_ -= piece;
  }
  return absl::OkStatus();
}

absl::Status HashedReader::Finish() {
  std::string rest(std::min<uint64_t>(left_, 256 << 10), '\0');
  while (left_ > 0) {
    const size_t piece = std::min<uint64_t>(left_, rest.size());
    if (absl::Status s = Read(rest.data(), piece); !s.ok()) return s;
  }
  const absl::StatusOr<std::string> found = hash_.Finish();
  if (!found.ok()) return found.status();
  if (*found == expected_.sha256) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      path_, ": sha256: expected ", expected_.sha256, ", found ", *found));
}

absl::StatusOr<std::string> ReadCheckpointFile(const std::string& path,
                                               size_t bytes_max) {
  uint64_t bytes = 0;
  const absl::StatusOr<int> file = OpenToRead(path, &bytes);
  if (!file.ok()) return file.status();
  absl::Status status;
  std::string text;
  if (bytes > bytes_max) {
    status = absl::DataLossError(absl::StrCat(
        path, ": bytes: expected ", bytes_max, " at most, found ", bytes));
  } else {
    text.resize(bytes);
    status = ReadAll(*file, path, text.data(), bytes);
  }
  close(*file);
  if (!status.ok()) return status;
  return text;
}

}  // namespace rollcall
