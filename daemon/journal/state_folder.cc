#include "daemon/journal/state_folder.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/journal/private_folder.h"

namespace rollcall {
namespace {

// The pid in the lock file, written by its holder.
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
  if (absl::Status made = MakePrivateFolder(path, kDaemonLock); !made.ok()) {
    return made;
  }
  const std::string file = absl::StrCat(path, "/", kDaemonLock);
  const absl::StatusOr<int> opened = OpenPrivateFile(path, kDaemonLock);
  if (!opened.ok()) return opened.status();
  const int lock = *opened;
  StateFolder folder(path, lock);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return UnusableFolder(
          path, absl::StrCat("cannot lock ", file, ": ", strerror(errno)));
    }
    return UnusableFolder(path,
                          absl::StrCat("held by ", Holder(lock),
                                       ", which is a daemon that still runs"));
  }
  absl::Status held = WriteHolder(path, kDaemonLock, lock);
  if (!held.ok()) return held;
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
