#include "client/agent/node_files/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/agent/node_files/remove_entries.h"
#include "client/agent/node_files/world_files.h"
#include "client/agent/processes/process_tree/left_processes.h"
#include "client/facts/system/system.h"
#include "daemon/base/clock.h"
#include "daemon/base/text/hex.h"
#include "daemon/core/limits.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr size_t kPidsNamedMax = 8;
constexpr size_t kWorldBytesMax = 64 << 20;
// A younger folder without a socket may belong to an agent that has not locked
// it yet.
constexpr time_t kSweptAfterSeconds = 60;
constexpr time_t kIncarnationsKeptSeconds = time_t{24} * 60 * 60;
constexpr absl::Duration kTurnPatience = absl::Seconds(5);
constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

Fd Lock(const std::string& folder) {
  Fd fd = OpenOwn(folder);
  if (!fd.open() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  return fd;
}

bool LeftBehind(const std::string& folder) {
  struct stat info;
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == getuid() &&
         (time(nullptr) - info.st_mtime > kSweptAfterSeconds ||
          access((folder + kSocketName).c_str(), F_OK) == 0 ||
          access((folder + kIncarnationsName).c_str(), F_OK) == 0);
}

// Whether the folder has nothing but incarnations. Then its agent has ended its
// ranks itself or never had any, or they were swept earlier.
bool HasOnlyIncarnations(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end;
       !error && at != end; at.increment(error)) {
    if (at->path().filename() != kIncarnationsName + 1) return false;
  }
  return !error;
}

// Returns whether to keep the folder because it has incarnations of another
// node, which that node's next agent will read. They are kept for a day after
// their agent has ended or was swept; no daemon waits longer.
bool KeepIncarnations(const Fd& folder) {
  if (faccessat(folder.get(), kIncarnationsName + 1, F_OK, 0) != 0) {
    return false;
  }
  RemoveAllButRecords(folder.get());
  struct stat info;
  return fstat(folder.get(), &info) == 0 &&
         time(nullptr) - info.st_mtime <= kIncarnationsKeptSeconds;
}

// The process that listens on this socket; 0: there is none, or it is in
// another pid namespace.
pid_t ListenerOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return 0;
  path.copy(address.sun_path, path.size());
  // Non-blocking, because a stopped agent may have a full queue.
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (!fd.open() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0 ||
      getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return 0;
  }
  return peer.pid;
}

// The text of a file if it is a plain file and no link: ranks of another user
// can put anything in its place.
std::string ReadPlain(const std::string& path) {
  const Fd fd(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info;
  std::string text;
  if (!fd.open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return text;
  }
  char piece[16384];
  while (text.size() < kWorldBytesMax) {
    const ssize_t got = read(fd.get(), piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

// The run named by the world files in this folder; empty: unknown.
std::string RunOf(const std::string& folder) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end;
       !ignored && at != end; at.increment(ignored)) {
    const auto world = nlohmann::json::parse(
        ReadPlain((at->path() / "world.json").string()), nullptr, false);
    if (world.is_object() && world.contains("run") &&
        world["run"].is_string()) {
      return world["run"];
    }
  }
  return "";
}

// Describes the running agent that has locked a folder; empty: it has no ranks.
std::string LivingText(const std::string& folder, const std::string& owner) {
  const std::string socket = absl::StrCat(folder, kSocketName);
  ProcessMatcher ranks;
  ranks.markers = {absl::StrCat("ROLLCALL_SOCKET=", socket)};
  if (FindMatching(ranks).empty()) return "";
  const std::string run = RunOf(folder);
  const pid_t pid = ListenerOf(socket);
  const std::vector<std::string> words = absl::StrSplit(owner, ' ');
  return absl::StrCat(
      "an agent of job ", words[0], run.empty() ? "" : ", run ", run,
      pid > 0 ? absl::StrCat(" (process ", pid, ")") : "",
      " still has ranks on this node, as node ", words.back(),
      pid > 0 ? absl::StrCat("; if its run is over, `kill ", pid, "` ends it")
              : "");
}

// The recorded nonces of this owner whose processes, if any were left, would be
// visible here: those of this boot and pid namespace, or of an earlier boot.
std::vector<std::string> IncarnationsOf(const std::string& folder,
                                        const std::string& owner) {
  std::vector<std::string> lives;
  std::ifstream file(folder + kIncarnationsName);
  const std::string here = PidScope();
  const std::string boot = BootId();
  for (std::string line; std::getline(file, line);) {
    // job node boot pid-namespace nonce
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 5 || absl::StrCat(words[0], " ", words[1]) != owner ||
        words[4].size() != 2 * Limits::incarnation_nonce_bytes ||
        !std::all_of(words[4].begin(), words[4].end(), absl::ascii_isxdigit)) {
      continue;
    }
    const bool seen = absl::StrCat(words[2], " ", words[3]) == here;
    const bool earlier_boot = !boot.empty() && words[2] != boot;
    if (seen || earlier_boot) lives.push_back(FromHex(words[4]));
  }
  return lives;
}

}  // namespace

Fd OpenOwn(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!fd.open() || fstat(fd.get(), &info) != 0) return Fd();
  if (info.st_uid == geteuid()) return fd;
  errno = EPERM;
  return Fd();
}

void RemoveAllButRecords(int folder) {
  RemoveEntries(folder, {kIncarnationsName + 1, kLeftName + 1});
}

void RemoveFolder(const std::string& path) {
  const Fd folder = OpenOwn(path);
  if (folder.open()) RemoveEntries(folder.get());
  rmdir(path.c_str());
}

std::string LeftText(const SweepResult& alive) {
  const bool denied = !alive.denied.empty();
  std::vector<pid_t> pids;
  for (const FoundProcess& process : denied ? alive.denied : alive.left) {
    pids.push_back(process.pid);
  }
  return absl::StrCat(
      "processes of this node's last agent are still here (pid ",
      absl::StrJoin(pids.begin(),
                    pids.begin() + std::min(pids.size(), kPidsNamedMax), ", "),
      pids.size() > kPidsNamedMax
          ? absl::StrCat(" and ", pids.size() - kPidsNamedMax, " more")
          : "",
      denied ? "): they belong to another user; end them, or have their user "
               "do it"
             : "): they were killed and do not die, because a disk or a "
               "device does not answer the kernel; see what they wait for in "
               "/proc/PID/stack");
}

// One agent of a user sweeps at a time. Otherwise two agents that start
// together would each find folders that the other one has locked for its sweep,
// and would take the agents of these folders for running ones. The lock is on
// `parent` itself if only this user can open it, otherwise on a file in it. A
// lock file of another user is ignored.
Fd AwaitTurn(const std::string& parent, const std::string& prefix) {
  Fd fd(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  const auto ours = [&info](const Fd& fd) {
    return fd.open() && fstat(fd.get(), &info) == 0 && info.st_uid == getuid();
  };
  if (!ours(fd) || (info.st_mode & 0077) != 0) {
    const std::string file = absl::StrCat(parent, "/", prefix, "sweep.lock");
    // Without O_NONBLOCK, a FIFO of another user would block the agent.
    fd = Fd(open(file.c_str(),
                 O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                 0600));
    if (!ours(fd) || !S_ISREG(info.st_mode)) return Fd();
  }
  // Only a limited wait: an agent that is stopped during its sweep must not
  // block the others.
  const absl::Time deadline = MonotonicNow() + kTurnPatience;
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Fd();
    if (MonotonicNow() >= deadline) return Fd();
    absl::SleepFor(kBetweenTries);
  }
  return fd;
}

// Removes the folders of this user's killed agents in `parent`, and ends their
// ranks in case the guard was killed too. Folders with incarnations of the
// owner stay until the caller has recorded these in its own folder.
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
    const std::vector<std::string> lives = IncarnationsOf(folder, owner);
    if (own_alone && lives.empty()) continue;
    const Fd lock = Lock(folder);
    if (!lock.open()) {
      std::string text = lives.empty() ? "" : LivingText(folder, owner);
      if (!text.empty()) found.living.push_back(std::move(text));
      continue;
    }
    SweepResult result;
    if (!HasOnlyIncarnations(folder)) {
      ProcessMatcher ranks;
      ranks.markers = {absl::StrCat("ROLLCALL_SOCKET=", folder, kSocketName)};
      ranks.processes = ReadLeft(folder);
      result = Sweep(ranks, patience);
    }
    if (!result.left.empty() || !result.denied.empty()) {
      RecordLeft(folder, result);
      if (lives.empty()) continue;
      SweepResult& alive = found.alive;
      alive.left.insert(alive.left.end(), result.left.begin(),
                        result.left.end());
      alive.denied.insert(alive.denied.end(), result.denied.begin(),
                          result.denied.end());
      continue;
    }
    if (!lives.empty()) {
      found.swept.insert(found.swept.end(), lives.begin(), lives.end());
      found.folders.push_back(folder);
      continue;
    }
    if (!KeepIncarnations(lock)) RemoveFolder(folder);
  }
}

}  // namespace rollcall
