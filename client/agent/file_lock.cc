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
#include "daemon/server/clock.h"
#include "daemon/server/mutex.h"

namespace rollcall {
namespace {

// A file descriptor of a lock file that may be trusted, or -1 with `why`.
int OpenLockFile(const std::string& path, std::string& why) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // Opened first without O_CREAT: with it, the kernel refuses even our own
  // users' files in some sticky folders (fs.protected_regular).
  int fd = open(path.c_str(), kFlags);
  if (fd < 0 && errno == ENOENT) {
    fd = open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST) fd = open(path.c_str(), kFlags);
  }
  if (fd < 0) {
    why = absl::StrCat(path, ": ", std::strerror(errno));
    return -1;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_uid != geteuid() && status.st_uid != 0)) {
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

absl::StatusOr<FileLock> FileLock::Acquire(
    const std::vector<std::string>& folders, const std::string& name,
    absl::Duration timeout) {
  std::string reasons;
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", name);
    std::string why;
    const int fd = OpenLockFile(path, why);
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
