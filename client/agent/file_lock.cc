#include "client/agent/file_lock.h"

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
#include "daemon/server/clock.h"
#include "daemon/server/mutex.h"

namespace rollcall {
namespace {

bool IsOurs(const struct stat& status) {
  return status.st_uid == geteuid() || status.st_uid == 0;
}

// A folder in which nobody else can make or replace a file; made where it is
// missing. -1 with `why`: it is none.
int OpenFolder(const std::string& path, std::string& why) {
  if (mkdir(path.c_str(), geteuid() == 0 ? 0755 : 0700) == 0) {
    // The umask may have taken bits that other users' agents look for.
    if (geteuid() == 0) chmod(path.c_str(), 0755);
  }
  const int fd =
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    why = absl::StrCat(path, ": ", std::strerror(errno));
    return -1;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !IsOurs(status) ||
      (status.st_mode & 022) != 0) {
    why = absl::StrFormat(
        "%s: expected a folder of user %d or root that nobody else may write "
        "to, found mode %o of user %d",
        path, geteuid(), status.st_mode & 07777, status.st_uid);
    close(fd);
    return -1;
  }
  return fd;
}

// A file descriptor of a lock file that may be trusted, or -1 with `why`.
int OpenLockFile(int folder, const std::string& name, const std::string& path,
                 std::string& why) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int fd = openat(folder, name.c_str(), kFlags | O_CREAT, 0600);
  if (fd < 0) {
    why = absl::StrCat(path, ": ", std::strerror(errno));
    return -1;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !IsOurs(status)) {
    why = absl::StrCat(path, ": expected a plain file of this user or root");
    close(fd);
    return -1;
  }
  return fd;
}

// A waiting flock(2), which nothing but the lock itself ends.
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

// Waits on a thread of its own, which ends with the wait; who abandons the wait
// leaves the descriptor to it.
void WaitForLock(std::shared_ptr<Waiting> waiting, int fd) {
  const int error = Flock(fd, LOCK_EX);
  MutexLock lock(waiting->mutex);
  waiting->done = true;
  waiting->error = error;
  if (waiting->abandoned) close(fd);
  waiting->changed.NotifyAll();
}

// 0, or an errno; ETIMEDOUT: `fd` is no longer the caller's.
int TimedFlock(int fd, absl::Duration timeout) {
  const int error = Flock(fd, LOCK_EX | LOCK_NB);
  if (error != EWOULDBLOCK) return error;
  // Shared: whichever of the two ends last lets go of it.
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

std::vector<std::string> DefaultLockFolders() {
  const uid_t user = geteuid();
  std::vector<std::string> folders;
  const std::string runtime = absl::StrCat("/run/user/", user);
  if (user == 0) {
    folders.push_back("/run/rollcall");
  } else if (access(runtime.c_str(), F_OK) == 0) {
    folders.push_back(runtime);
  }
  folders.push_back(absl::StrCat("/run/lock/rollcall-", user));
  folders.push_back(absl::StrCat("/tmp/rollcall-", user));
  return folders;
}

absl::StatusOr<FileLock> FileLock::Acquire(
    const std::vector<std::string>& folders, const std::string& name,
    absl::Duration timeout) {
  std::string reasons;
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::string why;
    const int in = OpenFolder(folder, why);
    const int fd = in < 0 ? -1 : OpenLockFile(in, name, path, why);
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
  // Said aloud, since a child between fork and exec may share the descriptor.
  flock(fd_, LOCK_UN);
  close(fd_);
}

}  // namespace rollcall
