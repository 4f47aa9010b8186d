#include "client/agent/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/agent/sweep.h"
#include "client/facts/system.h"
#include "daemon/core/limits.h"
#include "daemon/security/digest.h"
#include "daemon/server/clock.h"

namespace rollcall {
namespace {

constexpr char kSocketName[] = "/agent.sock";
constexpr char kLivesName[] = "/lives";
constexpr size_t kPidsNamedMax = 8;
// One that is younger and has no socket yet may be about to be locked.
constexpr time_t kSweptAfterSeconds = 60;
constexpr time_t kLivesKeptSeconds = 24 * 60 * 60;
constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);
constexpr absl::Duration kTurnPatience = absl::Seconds(5);
constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

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
          access((folder + kSocketName).c_str(), F_OK) == 0 ||
          access((folder + kLivesName).c_str(), F_OK) == 0);
}

// Another node's lives, which its own next agent is to read: nothing else is
// left of the folder. Not for ever: by then no daemon waits for them.
bool KeepLives(const std::string& folder) {
  struct stat info;
  if (lstat((folder + kLivesName).c_str(), &info) != 0 ||
      time(nullptr) - info.st_mtime > kLivesKeptSeconds) {
    return false;
  }
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end;
       !ignored && at != end; at.increment(ignored)) {
    if (at->path().filename() == kLivesName + 1) continue;
    std::error_code failed;
    std::filesystem::remove_all(at->path(), failed);
  }
  return true;
}

// What the processes of a node of this pid namespace are known by: a folder may
// outlive both, and may lie where another container sees it.
std::string Where() {
  std::error_code failed;
  const auto pids = std::filesystem::read_symlink("/proc/self/ns/pid", failed);
  return absl::StrCat(BootId(), " ", failed ? "?" : pids.string());
}

struct Leftovers {
  std::vector<uint64_t> swept;
  // Numbers of processes of the same owner that are still there.
  std::vector<pid_t> left;
  std::vector<pid_t> denied;
};

std::string LeftText(const Leftovers& found) {
  const bool denied = !found.denied.empty();
  const std::vector<pid_t>& pids = denied ? found.denied : found.left;
  return absl::StrCat(
      "processes of this node's last agent are still here (pid ",
      absl::StrJoin(pids.begin(),
                    pids.begin() + std::min(pids.size(), kPidsNamedMax), ", "),
      pids.size() > kPidsNamedMax
          ? absl::StrCat(" and ", pids.size() - kPidsNamedMax, " more")
          : "",
      denied ? "): they belong to another user; end them, or have their user "
               "do it"
             : "): they were killed and do not die, as where a disk or a "
               "device does not answer the kernel; see what they wait for in "
               "/proc/PID/stack");
}

// The lives of this owner whose processes could be seen from here, if there
// were any left: of this boot and pid namespace, or of an earlier boot.
std::vector<uint64_t> LivesOf(const std::string& folder,
                              const std::string& owner) {
  std::vector<uint64_t> lives;
  std::ifstream file(folder + kLivesName);
  const std::string here = Where();
  const std::string boot = BootId();
  for (std::string line; std::getline(file, line);) {
    // job node boot pid-namespace incarnation
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    uint64_t incarnation = 0;
    if (words.size() != 5 || absl::StrCat(words[0], " ", words[1]) != owner ||
        !absl::SimpleHexAtoi(words[4], &incarnation) || incarnation == 0) {
      continue;
    }
    const bool seen = absl::StrCat(words[2], " ", words[3]) == here;
    const bool earlier_boot = !boot.empty() && words[2] != boot;
    if (seen || earlier_boot) lives.push_back(incarnation);
  }
  return lives;
}

// One agent of a user sweeps at a time: two agents that start together would
// each find the folders that the other one sweeps locked, and take their agents
// for living ones. The lock is on `parent` itself where this user alone can
// open it, and on a file in it elsewhere. A lock file that belongs to another
// user is ignored.
Fd AwaitTurn(const std::string& parent, const std::string& prefix) {
  Fd fd(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  const auto ours = [&info](const Fd& fd) {
    return fd.open() && fstat(fd.get(), &info) == 0 && info.st_uid == getuid();
  };
  if (!ours(fd) || (info.st_mode & 0077) != 0) {
    const std::string file = absl::StrCat(parent, "/", prefix, "sweep.lock");
    // Without O_NONBLOCK, a FIFO that another user made would block the agent.
    fd = Fd(open(file.c_str(),
                 O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                 0600));
    if (!ours(fd) || !S_ISREG(info.st_mode)) return Fd();
  }
  // An agent that is stopped while it sweeps must not block the others.
  const absl::Time deadline = MonotonicNow() + kTurnPatience;
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Fd();
    if (MonotonicNow() >= deadline) return Fd();
    absl::SleepFor(kBetweenTries);
  }
  return fd;
}

// Removes what agents of this user left in `parent` that were killed, and ends
// their ranks, should the guard have been killed too. Nothing of this may fail
// the agent that happens to come by, but for what is left of its own node:
// `own_alone`, that and nothing else.
void SweepLeftovers(const std::string& parent, const std::string& prefix,
                    const std::string& owner, absl::Duration patience,
                    bool own_alone, Leftovers& found) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(parent, ignored), end;
       !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.rfind(prefix, 0) != 0 || name.size() != prefix.size() + 8) {
      continue;
    }
    const std::string folder = at->path().string();
    if (!LeftBehind(folder)) continue;
    const std::vector<uint64_t> lives = LivesOf(folder, owner);
    if (own_alone && lives.empty()) continue;
    const Fd lock = Lock(folder);
    if (!lock.open()) continue;
    Kin ranks;
    ranks.markers = {absl::StrCat("ROLLCALL_SOCKET=", folder, kSocketName)};
    const SweepResult result = Sweep(ranks, patience);
    if (!result.left.empty() || !result.denied.empty()) {
      if (lives.empty()) continue;
      found.left.insert(found.left.end(), result.left.begin(),
                        result.left.end());
      found.denied.insert(found.denied.end(), result.denied.begin(),
                          result.denied.end());
      continue;
    }
    if (lives.empty() && KeepLives(folder)) continue;
    found.swept.insert(found.swept.end(), lives.begin(), lives.end());
    std::error_code failed;
    std::filesystem::remove_all(folder, failed);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Make(
    const std::string& runtime_dir, const std::string& job,
    const std::string& node, absl::Duration patience,
    const std::function<void(const std::string&)>& waits) {
  const std::string random = absl::BytesToHexString(RandomBytes(4));
  const std::string owner = absl::StrCat(job, " ", node);
  struct Place {
    std::string parent;
    std::string prefix;
  };
  const Place places[] = {{runtime_dir, "rollcall-"},
                          {"/tmp", absl::StrCat("rollcall-", getuid(), "-")}};
  std::string failure;
  std::unique_ptr<RunFolder> made;
  for (const Place& place : places) {
    const std::string path =
        absl::StrCat(place.parent, "/", place.prefix, random);
    if (place.parent.empty() ||
        path.size() + sizeof(kSocketName) - 1 > kSocketPathBytesMax) {
      continue;
    }
    // Fails where somebody has put something there first.
    if (mkdir(path.c_str(), 0700) == 0) {
      made.reset(new RunFolder(path, Lock(path), owner));
      break;
    }
    failure =
        absl::StrCat("cannot make the folder ", path, ": ", strerror(errno),
                     "; set XDG_RUNTIME_DIR to one that can be written");
  }
  if (made == nullptr) return absl::UnavailableError(failure);
  // At first a moment; then, if it is worth waiting for, as long as it may.
  for (const bool again : {false, true}) {
    Leftovers found;
    for (const Place& place : places) {
      if (place.parent.empty()) continue;
      const Fd turn = again ? Fd() : AwaitTurn(place.parent, place.prefix);
      SweepLeftovers(place.parent, place.prefix, owner,
                     again ? patience : kSweepPatience, again, found);
    }
    made->swept_.insert(made->swept_.end(), found.swept.begin(),
                        found.swept.end());
    if (found.left.empty() && found.denied.empty()) break;
    const std::string text = LeftText(found);
    // Another user's do not die for our waiting.
    if (!found.denied.empty() || again || patience <= kSweepPatience) {
      return absl::UnavailableError(text);
    }
    if (waits) waits(text);
  }
  const size_t most = Limits::swept_max;
  if (made->swept_.size() > most) {
    made->swept_.erase(made->swept_.begin(), made->swept_.end() - most);
  }
  return made;
}

RunFolder::RunFolder(std::string path, Fd lock, std::string owner)
    : path_(std::move(path)),
      lock_(std::move(lock)),
      owner_(std::move(owner)) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void RunFolder::RecordLife(uint64_t incarnation) {
  if (std::exchange(recorded_, incarnation) == incarnation) return;
  std::ofstream file(path_ + kLivesName, std::ios::app);
  file << absl::StrCat(owner_, " ", Where(), " ", absl::Hex(incarnation), "\n");
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
