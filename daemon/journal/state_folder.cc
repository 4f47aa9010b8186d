#include "daemon/journal/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

absl::Status Trouble(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "state folder ", path, ": ", what, "; give another one with --state"));
}

// Makes the folder and all above it that are missing.
absl::Status MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return Trouble(path,
                     absl::StrCat("cannot make ", part, ": ", strerror(errno)));
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

// The pid that the lock file's holder wrote into it.
std::string Holder(int lock) {
  char text[32];
  const ssize_t size = pread(lock, text, sizeof(text), 0);
  if (size <= 0) return "another process";
  for (ssize_t i = 0; i < size; ++i) {
    if (text[i] == '\n' && i > 0) {
      return absl::StrCat("process ", absl::string_view(text, i));
    }
    if (!absl::ascii_isdigit(static_cast<unsigned char>(text[i]))) break;
  }
  return "another process";
}

}  // namespace

absl::StatusOr<StateFolder> StateFolder::Open(const std::string& path) {
  if (path.empty()) return Trouble("\"\"", "expected a path, got none");
  if (absl::Status made = MakeFolders(path); !made.ok()) return made;
  const std::string file = absl::StrCat(path, "/daemon.lock");
  const int lock = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) {
    return Trouble(path,
                   absl::StrCat("cannot open ", file, ": ", strerror(errno)));
  }
  StateFolder folder(path, lock);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return Trouble(path,
                     absl::StrCat("cannot lock ", file, ": ", strerror(errno)));
    }
    return Trouble(path, absl::StrCat("held by ", Holder(lock),
                                      ", which is a daemon that still runs"));
  }
  // Only once it is ours: a folder that others can look into holds secrets.
  if (chmod(path.c_str(), 0700) != 0) {
    return Trouble(path, absl::StrCat("cannot close it to other users: ",
                                      strerror(errno)));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(lock, 0) != 0 || pwrite(lock, pid.data(), pid.size(), 0) !=
                                     static_cast<ssize_t>(pid.size())) {
    return Trouble(path,
                   absl::StrCat("cannot write ", file, ": ", strerror(errno)));
  }
  return folder;
}

StateFolder::StateFolder(StateFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

StateFolder& StateFolder::operator=(StateFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

StateFolder::~StateFolder() {
  if (lock_ >= 0) close(lock_);
}

}  // namespace rollcall
