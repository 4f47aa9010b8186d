#include "daemon/base/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"

namespace rollcall {
namespace {

constexpr mode_t kEverybodys = 01777;

bool IsTrusted(const struct stat& status, const LockUsers& users) {
  return status.st_uid == users.owner || status.st_uid == 0;
}

// Mode 1777: every user may make files in the folder, and none may remove or
// replace another user's file.
bool IsEverybodys(const struct stat& status) {
  return (status.st_mode & kEverybodys) == kEverybodys;
}

// Makes the owner's folder if it is missing.
void MakeFolder(const std::string& path, uid_t owner) {
  const uid_t user = geteuid();
  if (user == owner) {
    const mode_t mode = user == 0 ? 0755 : 0700;
    // The umask may have removed bits; agents of other users must be able to
    // enter.
    if (mkdir(path.c_str(), mode) == 0) chmod(path.c_str(), mode);
    return;
  }
  const std::string parent = path.substr(0, path.rfind('/') + 1);
  struct stat status {};
  // If the owner could not make the folder here, its processes lock in the next
  // folder of the list. So root does not make it here either.
  if (user != 0 || stat(parent.c_str(), &status) != 0 ||
      !IsEverybodys(status) || mkdir(path.c_str(), 0700) != 0) {
    return;
  }
  // No other user can have replaced the folder, since its parent has mode 1777.
  [[maybe_unused]] const int given = lchown(path.c_str(), owner, -1);
}

// Opens a folder in which only `users` can make or replace a file. -1: it is
// not such a folder, or cannot be opened; `why` has the reason.
int OpenFolder(const std::string& path, const LockUsers& users,
               std::string& why) {
  if (!users.others) MakeFolder(path, users.owner);
  const int fd =
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    why = absl::StrCat(path, ": ", std::strerror(errno));
    return -1;
  }
  struct stat status {};
  const bool known = fstat(fd, &status) == 0 && IsTrusted(status, users);
  if (known &&
      (users.others ? IsEverybodys(status) : (status.st_mode & 022) == 0)) {
    return fd;
  }
  why = absl::StrFormat(
      "%s: expected a folder of user %d or root that %s, found mode %o of "
      "user %d",
      path, users.owner,
      users.others ? "has mode 1777" : "nobody else may write to",
      status.st_mode & 07777, status.st_uid);
  close(fd);
  return -1;
}

// Opens the lock file; makes it if it is missing. Returns -1 and sets errno on
// failure.
int OpenOrMake(int folder, const std::string& name, const LockUsers& users) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = -1;
  // Without O_CREAT first: in a folder that every user may write, the kernel
  // refuses O_CREAT for another user's file.
  for (int attempt = 0; attempt < 2 && fd < 0; ++attempt) {
    fd = openat(folder, name.c_str(), kFlags);
    if (fd >= 0 || errno != ENOENT) return fd;
    fd = openat(folder, name.c_str(), kFlags | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno != EEXIST) return fd;
  }
  if (fd < 0) return fd;
  if (users.others) fchmod(fd, 0666);
  if (!users.others && geteuid() != users.owner) {
    [[maybe_unused]] const int given = fchown(fd, users.owner, -1);
  }
  return fd;
}

// Opens a lock file that can be trusted. Returns -1 and sets `why` if there is
// none.
int OpenLockFile(int folder, const std::string& name, const std::string& path,
                 const LockUsers& users, std::string& why) {
  const int fd = OpenOrMake(folder, name, users);
  if (fd < 0) {
    why = absl::StrCat(path, ": ", std::strerror(errno));
    return -1;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      !(users.others || IsTrusted(status, users))) {
    why = absl::StrCat(path, ": expected a plain file of user ", users.owner,
                       " or root");
    close(fd);
    return -1;
  }
  return fd;
}

// A flock(2) that waits for a lock. It cannot be cancelled: it ends when it has
// the lock.
struct Waiting {
  Mutex mutex;
  CondVar changed;
  bool done ABSL_GUARDED_BY(mutex) = false;
  bool abandoned ABSL_GUARDED_BY(mutex) = false;
  int error ABSL_GUARDED_BY(mutex) = 0;
};

int Flock(int fd, int operation) {
  while (flock(fd, operation) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Runs on a thread of its own, which ends when flock returns. If the caller has
// abandoned the wait, this thread closes the descriptor.
void WaitForLock(std::shared_ptr<Waiting> waiting, int fd) {
  const int error = Flock(fd, LOCK_EX);
  MutexLock lock(waiting->mutex);
  waiting->done = true;
  waiting->error = error;
  if (waiting->abandoned) close(fd);
  waiting->changed.NotifyAll();
}

// Returns 0 or an errno. ETIMEDOUT: the waiting thread now owns `fd`.
int TimedFlock(int fd, absl::Duration timeout) {
  const int error = Flock(fd, LOCK_EX | LOCK_NB);
  if (error != EWOULDBLOCK) return error;
  // Shared, because either the caller or the waiting thread may end last.
  auto waiting = std::make_shared<Waiting>();
  try {
    std::thread(WaitForLock, waiting, fd).detach();
  } catch (const std::system_error&) {
    return EAGAIN;
  }
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(waiting->mutex);
  while (!waiting->done) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      waiting->abandoned = true;
      return ETIMEDOUT;
    }
    waiting->changed.WaitFor(waiting->mutex, left);
  }
  return waiting->error;
}

}  // namespace

std::vector<std::string> LockFolders(const LockUsers& users) {
  if (users.others) return {"/run/lock", "/tmp"};
  std::vector<std::string> folders;
  if (users.owner == 0) folders.push_back("/run/rollcall");
  folders.push_back(absl::StrCat("/run/lock/rollcall-", users.owner));
  folders.push_back(absl::StrCat("/tmp/rollcall-", users.owner));
  return folders;
}

absl::StatusOr<FileLock> FileLock::Acquire(
    const std::vector<std::string>& folders, const std::string& name,
    const LockUsers& users, absl::Duration timeout) {
  std::string reasons;
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::string why;
    const int in = OpenFolder(folder, users, why);
    const int fd = in < 0 ? -1 : OpenLockFile(in, name, path, users, why);
    if (in >= 0) close(in);
    if (fd >= 0) {
      const int error = TimedFlock(fd, timeout);
      if (error == 0) return FileLock(fd, folder);
      if (error == ETIMEDOUT) {
        return absl::UnavailableError(
            absl::StrCat(path, ": another process has held this lock for over ",
                         absl::FormatDuration(timeout), "; see `fuser`"));
      }
      close(fd);
      why = absl::StrCat(path, ": ", std::strerror(error));
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", why);
  }
  return absl::PermissionDeniedError(
      absl::StrCat("no lock could be taken: ", reasons));
}

FileLock::FileLock(int fd, std::string folder)
    : fd_(fd), folder_(std::move(folder)) {}

FileLock::FileLock(FileLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), folder_(std::move(other.folder_)) {}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  // Unlocks explicitly, because a child between fork and exec may share the
  // descriptor; then close alone does not release the lock.
  flock(fd_, LOCK_UN);
  close(fd_);
}

}  // namespace rollcall
