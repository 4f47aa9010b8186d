#include "client/agent/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/agent/sweep.h"
#include "daemon/security/digest.h"

namespace rollcall {
namespace {

constexpr char kSocketName[] = "/agent.sock";
// One that is younger and has no socket yet may be about to be locked.
constexpr time_t kSweptAfterSeconds = 60;
constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);

Fd Lock(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.open() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  return fd;
}

bool LeftBehind(const std::string& folder) {
  struct stat info;
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == getuid() &&
         (time(nullptr) - info.st_mtime > kSweptAfterSeconds ||
          access((folder + kSocketName).c_str(), F_OK) == 0);
}

// Removes what agents of this user left in `parent` that were killed, and ends
// their ranks, should the guard have been killed too. Nothing of this may fail
// the agent that happens to come by.
void SweepLeftovers(const std::string& parent, const std::string& prefix) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(parent, ignored), end;
       !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.rfind(prefix, 0) != 0 || name.size() != prefix.size() + 8) {
      continue;
    }
    const std::string folder = at->path().string();
    if (!LeftBehind(folder)) continue;
    const Fd lock = Lock(folder);
    if (!lock.open()) continue;
    Kin ranks;
    ranks.markers = {absl::StrCat("ROLLCALL_SOCKET=", folder, kSocketName)};
    Sweep(ranks, kSweepPatience);
    std::error_code failed;
    std::filesystem::remove_all(folder, failed);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Make(
    const std::string& runtime_dir) {
  const std::string random = absl::BytesToHexString(RandomBytes(4));
  struct Place {
    std::string parent;
    std::string prefix;
  };
  const Place places[] = {{runtime_dir, "rollcall-"},
                          {"/tmp", absl::StrCat("rollcall-", getuid(), "-")}};
  std::string failure;
  for (const Place& place : places) {
    const std::string path =
        absl::StrCat(place.parent, "/", place.prefix, random);
    if (place.parent.empty() ||
        path.size() + sizeof(kSocketName) - 1 > kSocketPathBytesMax) {
      continue;
    }
    // Fails where somebody has put something there first.
    if (mkdir(path.c_str(), 0700) == 0) {
      SweepLeftovers(place.parent, place.prefix);
      return std::unique_ptr<RunFolder>(new RunFolder(path, Lock(path)));
    }
    failure =
        absl::StrCat("cannot make the folder ", path, ": ", strerror(errno),
                     "; set XDG_RUNTIME_DIR to one that can be written");
  }
  return absl::UnavailableError(failure);
}

RunFolder::RunFolder(std::string path, Fd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string RunFolder::socket() const {
  return absl::StrCat(path_, kSocketName);
}

void RunFolder::Remove(uint64_t generation) {
  std::error_code ignored;
  std::filesystem::remove_all(absl::StrCat(path_, "/gen-", generation),
                              ignored);
}

}  // namespace rollcall
