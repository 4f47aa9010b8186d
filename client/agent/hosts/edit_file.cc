#include "client/agent/hosts/edit_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

constexpr char kNoteHead[] = "rollcall undo note ";
constexpr int kAttemptsMax = 3;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  const int fd_;
};

absl::Status Failed(const std::string& what, int error) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(text);
  }
  return absl::FailedPreconditionError(text);
}

// Writes everything from `offset` on; returns 0 or an errno.
int WriteAll(int fd, absl::string_view text, off_t offset = 0) {
  while (!text.empty()) {
    const ssize_t n = pwrite(fd, text.data(), text.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    text.remove_prefix(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

int ReadAll(int fd, size_t bytes_max, std::string& text) {
  text.clear();
  char buffer[16 << 10];
  while (text.size() <= bytes_max) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return 0;
    text.append(buffer, static_cast<size_t>(n));
  }
  return EFBIG;
}

// --- One file ---------------------------------------------------------------

struct Snapshot {
  bool exists = false;
  struct stat status {};
  std::string text;
};

absl::Status NoPlainFile(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": expected a plain file"));
}

absl::StatusOr<Snapshot> Read(const std::string& path, size_t bytes_max) {
  Snapshot snapshot;
  const Fd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) {
    if (errno == ENOENT) return snapshot;
    return Failed(path, errno);
  }
  if (fstat(fd.get(), &snapshot.status) != 0) return Failed(path, errno);
  if (!S_ISREG(snapshot.status.st_mode)) return NoPlainFile(path);
  if (const int error = ReadAll(fd.get(), bytes_max, snapshot.text)) {
    return Failed(path, error);
  }
  snapshot.exists = true;
  return snapshot;
}

// Whether the file is still the one that was read.
bool Unchanged(const std::string& path, const Snapshot& before) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0) return !before.exists && errno == ENOENT;
  return before.exists && now.st_ino == before.status.st_ino &&
         now.st_dev == before.status.st_dev &&
         now.st_size == before.status.st_size &&
         now.st_ctim.tv_sec == before.status.st_ctim.tv_sec &&
         now.st_ctim.tv_nsec == before.status.st_ctim.tv_nsec;
}

bool IsMountPoint(const std::string& path) {
  struct statx status {};
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, 0, &status) != 0) {
    return false;
  }
  // Known since Linux 5.8. On an older kernel the rename fails with EBUSY.
  constexpr uint64_t kMountRoot = 0x2000;
  return (status.stx_attributes_mask & status.stx_attributes & kMountRoot) != 0;
}

// Copies security labels and access lists. Errors are ignored, as by cp -p.
void CopyAttributes(const std::string& from, int to) {
  char names[4096];
  const ssize_t size = listxattr(from.c_str(), names, sizeof(names));
  for (ssize_t at = 0; at < size; at += strlen(names + at) + 1) {
    char value[4096];
    const ssize_t n = getxattr(from.c_str(), names + at, value, sizeof(value));
    if (n >= 0) (void)fsetxattr(to, names + at, value, n, 0);
  }
}

// The errno of a way of writing that does not work here; nullopt: it worked.
using Errno = std::optional<int>;

// Fills the new file and copies mode, owner and attributes of the old one.
Errno FillTemporary(int fd, const std::string& path, const Snapshot& before,
                    const std::string& text) {
  mode_t mode = 0644;
  if (before.exists) {
    mode = before.status.st_mode & 07777;
    const bool same_owner =
        before.status.st_uid == geteuid() && before.status.st_gid == getegid();
    if (!same_owner &&
        fchown(fd, before.status.st_uid, before.status.st_gid) != 0) {
      return errno;
    }
    CopyAttributes(path, fd);
  }
  if (fchmod(fd, mode) != 0) return errno;
  if (const int error = WriteAll(fd, text)) return error;
  if (fsync(fd) != 0) return errno;
  return std::nullopt;
}

Errno StoreByRename(const std::string& path, const Snapshot& before,
                    const std::string& text) {
  const size_t slash = path.rfind('/');
  const std::string temporary = absl::StrCat(
      path.substr(0, slash + 1), ".", path.substr(slash + 1), ".rollcall-new");
  // An earlier process may have left this file. No other process writes it now,
  // because this process holds the lock.
  unlink(temporary.c_str());
  const Fd fd(open(temporary.c_str(),
                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return errno;
  Errno error = FillTemporary(fd.get(), path, before, text);
  if (!error.has_value() && !Unchanged(path, before)) error = ESTALE;
  if (!error.has_value() && rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error.has_value()) unlink(temporary.c_str());
  return error;
}

void WriteNote(const std::string& note_path, const UndoNote& note) {
  unlink(note_path.c_str());
  const Fd fd(open(note_path.c_str(),
                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return;
  if (WriteAll(fd.get(), FormatUndoNote(note)) != 0) unlink(note_path.c_str());
}

Errno Overwrite(int fd, const std::string& text) {
  if (const int error = WriteAll(fd, text)) return error;
  if (ftruncate(fd, static_cast<off_t>(text.size())) != 0) return errno;
  if (fsync(fd) != 0 && errno != EINVAL) return errno;
  return std::nullopt;
}

Errno StoreInPlace(const std::string& path, const Snapshot& before,
                   const std::string& text, const std::string& note_path) {
  const Fd fd(
      open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return errno;
  if (!Unchanged(path, before)) return ESTALE;
  WriteNote(note_path, {before.text, text});
  const Errno error = Overwrite(fd.get(), text);
  // After an error (a full disk) the old text is written back; the file still
  // has the disk blocks for it.
  const bool settled =
      !error.has_value() || !Overwrite(fd.get(), before.text).has_value();
  if (settled) unlink(note_path.c_str());
  return error;
}

Errno Store(const std::string& path, const Snapshot& before,
            const EditedText& edited, const std::string& note_path) {
  if (edited.remove && unlink(path.c_str()) == 0) return std::nullopt;
  const bool in_place =
      before.exists && (before.status.st_nlink > 1 || IsMountPoint(path));
  if (!in_place) {
    const Errno error = StoreByRename(path, before, edited.text);
    if (!error.has_value() || *error == ESTALE || !before.exists) return error;
  }
  return StoreInPlace(path, before, edited.text, note_path);
}

// --- After a crash ----------------------------------------------------------

// Undoes an in-place write that was cut off. Uses a note only if this user, the
// file's owner or root wrote it, and only if the file is the result of such a
// write.
void UndoTornWrite(const std::string& path, const std::string& note_path,
                   uid_t owner, size_t bytes_max) {
  const Fd fd(
      open(note_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return;
  struct stat status {};
  std::string text;
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_uid != geteuid() && status.st_uid != 0 &&
       status.st_uid != owner) ||
      (status.st_mode & 022) != 0) {
    return;
  }
  const bool whole = ReadAll(fd.get(), 2 * bytes_max + 256, text) == 0;
  const auto note = ReadUndoNote(text);
  const auto current = Read(path, bytes_max);
  bool settled = true;
  if (whole && note.ok() && current.ok() && current->exists &&
      current->text != note->after && current->text != note->before &&
      IsTornWrite(current->text, note->before, note->after)) {
    const Fd file(
        open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    settled = file.ok() && !Overwrite(file.get(), note->before).has_value();
  }
  if (settled) unlink(note_path.c_str());
}

// The path after following symbolic links. If the file does not exist yet, only
// its folder is resolved.
absl::StatusOr<std::string> Resolve(const std::string& path) {
  char* found = realpath(path.c_str(), nullptr);
  if (found == nullptr && errno == ENOENT) {
    struct stat link {};
    if (lstat(path.c_str(), &link) == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": a symbolic link that leads nowhere"));
    }
    const size_t slash = path.rfind('/');
    const std::string folder =
        slash == std::string::npos ? "." : path.substr(0, slash + 1);
    found = realpath(folder.c_str(), nullptr);
    if (found == nullptr) return Failed(path, errno);
    const std::string resolved = absl::StrCat(
        found, "/", path.substr(slash == std::string::npos ? 0 : slash + 1));
    free(found);
    return resolved;
  }
  if (found == nullptr) return Failed(path, errno);
  std::string resolved = found;
  free(found);
  return resolved;
}

// FNV-1a, which is the same in every build: several processes must compute the
// same name.
std::string PathHash(const std::string& path) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : path) hash = (hash ^ c) * 0x100000001b3;
  return absl::StrFormat("%016x", hash);
}

std::string FolderOf(const std::string& resolved) {
  const std::string folder = resolved.substr(0, resolved.rfind('/'));
  return folder.empty() ? "/" : folder;
}

// The users that may write the file, or may create it if it does not exist.
absl::StatusOr<LockUsers> UsersOf(const std::string& resolved) {
  struct stat status {};
  if (lstat(resolved.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return NoPlainFile(resolved);
  } else if (stat(FolderOf(resolved).c_str(), &status) != 0) {
    return Failed(resolved, errno);
  }
  return LockUsers{status.st_uid, (status.st_mode & 022) != 0};
}

// Takes the lock that excludes `users`, the users that may write the file now.
absl::StatusOr<FileLock> Lock(const std::string& resolved,
                              const EditFileOptions& options,
                              LockUsers& users) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const absl::StatusOr<LockUsers> before = UsersOf(resolved);
    if (!before.ok()) return before.status();
    users = *before;
    std::vector<std::string> folders = options.lock_folders;
    if (folders.empty()) folders = LockFolders(users);
    folders.push_back(FolderOf(resolved));
    auto lock = FileLock::Acquire(folders, LockName(resolved), users,
                                  options.lock_timeout);
    if (!lock.ok()) return lock;
    // Another user may have created the file in between.
    const absl::StatusOr<LockUsers> now = UsersOf(resolved);
    if (!now.ok()) return now.status();
    if (*now == users) return lock;
  }
  return absl::AbortedError(absl::StrCat(
      resolved,
      ": its owner or mode changed each time it was to be locked; find the "
      "program that changes it, and start again"));
}

}  // namespace

std::string LockName(const std::string& path) {
  return absl::StrCat("rollcall-", PathHash(path), ".lock");
}

std::string UndoNoteName(const std::string& path) {
  return absl::StrCat("rollcall-", PathHash(path), ".undo");
}

std::string FormatUndoNote(const UndoNote& note) {
  return absl::StrCat(kNoteHead, note.before.size(), " ", note.after.size(),
                      "\n", note.before, note.after);
}

absl::StatusOr<UndoNote> ReadUndoNote(absl::string_view text) {
  const auto bad = absl::InvalidArgumentError("the undo note is incomplete");
  if (!absl::ConsumePrefix(&text, kNoteHead)) return bad;
  const size_t newline = text.find('\n');
  if (newline == absl::string_view::npos) return bad;
  const absl::string_view sizes = text.substr(0, newline);
  text.remove_prefix(newline + 1);
  const size_t space = sizes.find(' ');
  uint64_t before = 0;
  uint64_t after = 0;
  if (space == absl::string_view::npos ||
      !absl::SimpleAtoi(sizes.substr(0, space), &before) ||
      !absl::SimpleAtoi(sizes.substr(space + 1), &after) ||
      before > text.size() || after != text.size() - before) {
    return bad;
  }
  return UndoNote{std::string(text.substr(0, before)),
                  std::string(text.substr(before))};
}

bool IsTornWrite(absl::string_view current, absl::string_view before,
                 absl::string_view after) {
  const size_t same =
      std::mismatch(current.begin(), current.end(), after.begin(), after.end())
          .first -
      current.begin();
  // The write was cut off here, or has finished.
  if (same == current.size()) return true;
  if (current.size() < before.size()) return false;
  // From this offset on, only old bytes remain.
  size_t old_from = current.size();
  while (old_from > 0 && old_from <= before.size() &&
         current[old_from - 1] == before[old_from - 1]) {
    --old_from;
  }
  return current.size() == before.size() && old_from <= same;
}

absl::Status EditFile(const std::string& path, const EditFileOptions& options,
                      const EditText& edit) {
  const auto resolved = Resolve(path);
  if (!resolved.ok()) return resolved.status();
  LockUsers users;
  const auto lock = Lock(*resolved, options, users);
  if (!lock.ok()) return lock.status();
  const std::string note_path =
      absl::StrCat(lock->folder(), "/", UndoNoteName(*resolved));
  UndoTornWrite(*resolved, note_path, users.owner, options.bytes_max);
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const auto before = Read(*resolved, options.bytes_max);
    if (!before.ok()) return before.status();
    const EditedText edited = edit(before->text, before->exists);
    if (edited.text == before->text && !edited.remove) return absl::OkStatus();
    if (edited.text.size() > options.bytes_max) {
      return Failed(*resolved, EFBIG);
    }
    const Errno error = Store(*resolved, *before, edited, note_path);
    if (error.has_value() && *error == ESTALE) continue;
    if (error.has_value()) return Failed(*resolved, *error);
    const auto now = Read(*resolved, options.bytes_max);
    if (now.ok() && now->text == edited.text) return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(
      *resolved, ": another program kept changing it while it was written"));
}

}  // namespace rollcall
