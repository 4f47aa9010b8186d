#include "client/agent/node_files/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
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
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/agent/node_files/remove_entries.h"
#include "client/agent/node_files/world_files.h"
#include "client/agent/processes/left_processes.h"
#include "client/agent/processes/sweep.h"
#include "client/facts/system.h"
#include "daemon/base/clock.h"
#include "daemon/core/limits.h"
#include "daemon/security/digest.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr char kSocketName[] = "/agent.sock";
constexpr char kIncarnationsName[] = "/lives";
constexpr mode_t kMode = 0700;
// Ranks of another user enter it by their group, and cannot list it.
constexpr mode_t kModeForGroup = 0710;
constexpr size_t kPidsNamedMax = 8;
constexpr size_t kWorldBytesMax = 64 << 20;
// A younger folder without a socket may be about to be locked.
constexpr time_t kSweptAfterSeconds = 60;
constexpr time_t kIncarnationsKeptSeconds = time_t{24} * 60 * 60;
constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);
constexpr absl::Duration kTurnPatience = absl::Seconds(5);
constexpr absl::Duration kBetweenTries = absl::Milliseconds(10);

// Opens a folder of this process's user; never a link. On failure, errno says
// why.
Fd OpenOwn(const std::string& folder) {
  Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!fd.open() || fstat(fd.get(), &info) != 0) return Fd();
  if (info.st_uid == geteuid()) return fd;
  errno = EPERM;
  return Fd();
}

Fd Lock(const std::string& folder) {
  Fd fd = OpenOwn(folder);
  if (!fd.open() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  return fd;
}

// Makes the folder of one agent, which another user's ranks may enter, and
// locks it. Not open: errno says why.
Fd MakeLocked(const std::string& path, const SystemUser* user) {
  // Fails if another user has already made something at this path.
  if (mkdir(path.c_str(), kMode) != 0) return Fd();
  Fd folder = OpenOwn(path);
  if (folder.open() &&
      (user == nullptr || (fchown(folder.get(), -1, user->gid) == 0 &&
                           fchmod(folder.get(), kModeForGroup) == 0))) {
    // A file system without locks leaves it unlocked.
    flock(folder.get(), LOCK_EX | LOCK_NB);
    return folder;
  }
  const int error = errno;
  rmdir(path.c_str());
  errno = error;
  return Fd();
}

bool LeftBehind(const std::string& folder) {
  struct stat info;
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == getuid() &&
         (time(nullptr) - info.st_mtime > kSweptAfterSeconds ||
          access((folder + kSocketName).c_str(), F_OK) == 0 ||
          access((folder + kIncarnationsName).c_str(), F_OK) == 0);
}

// Removes everything except the records for the node's next agent.
void RemoveAllButRecords(int folder) {
  RemoveEntries(folder, {kIncarnationsName + 1, kLeftName + 1});
}

void RemoveFolder(const std::string& path) {
  const Fd folder = OpenOwn(path);
  if (folder.open()) RemoveEntries(folder.get());
  rmdir(path.c_str());
}

// The folder has another node's lives, which that node's next agent will read.
// They are kept for a day after its agent ended or was swept; no daemon waits
// longer.
bool KeepIncarnations(const Fd& folder) {
  if (faccessat(folder.get(), kIncarnationsName + 1, F_OK, 0) != 0) {
    return false;
  }
  RemoveAllButRecords(folder.get());
  struct stat info;
  return fstat(folder.get(), &info) == 0 &&
         time(nullptr) - info.st_mtime <= kIncarnationsKeptSeconds;
}

struct Leftovers {
  std::vector<std::string> swept;
  // The folders whose lives are in `swept`.
  std::vector<std::string> folders;
  // Processes of the same owner that still exist.
  SweepResult alive;
  // Agents of the same owner that have ranks.
  std::vector<std::string> living;
};

// The process that listens on this socket; 0: there is none, or it is in
// another pid namespace.
pid_t ListenerOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return 0;
  path.copy(address.sun_path, path.size());
  // A stopped agent may have a full queue.
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

// The text of a file, if it is a plain one and no link: ranks of another user
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

// The run whose world files are in this folder; empty: not known.
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

// Describes the living agent that holds a folder; empty: it has no ranks.
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

// The nonces of this owner's lives whose processes would be visible from here:
// lives of this boot and pid namespace, or of an earlier boot.
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
    if (seen || earlier_boot) lives.push_back(absl::HexStringToBytes(words[4]));
  }
  return lives;
}

// One agent of a user sweeps at a time. Otherwise two agents that start
// together would each find the folders locked that the other one sweeps, and
// take their agents for living ones. The lock is on `parent` itself if only
// this user can open it, and else on a file in it. A lock file of another user
// is ignored.
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
  // An agent that is stopped while it sweeps must not block the others.
  const absl::Time deadline = MonotonicNow() + kTurnPatience;
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return Fd();
    if (MonotonicNow() >= deadline) return Fd();
    absl::SleepFor(kBetweenTries);
  }
  return fd;
}

// Removes the folders in `parent` of this user's killed agents, and ends their
// ranks in case the guard was killed too. Folders of the owner's lives stay
// until those are recorded elsewhere. No error here may fail the agent, except
// processes left of its own node. `own_alone`: only that is swept.
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
    ProcessMatcher ranks;
    ranks.markers = {absl::StrCat("ROLLCALL_SOCKET=", folder, kSocketName)};
    ranks.processes = ReadLeft(folder);
    const SweepResult result = Sweep(ranks, patience);
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

std::string GenerationName(uint64_t generation) {
  return absl::StrCat("gen-", generation);
}

// Whether nobody but root and this process's user can rename a folder of theirs
// in `parent`. The rank's user could otherwise lead root elsewhere at any time.
absl::Status CheckParent(const std::string& parent, const SystemUser& user) {
  struct stat info;
  if (stat(parent.c_str(), &info) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(parent, ": ", strerror(errno)));
  }
  const bool open_to_all = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
                           (info.st_mode & S_ISVTX) == 0;
  if (!open_to_all && info.st_uid != user.uid) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      parent, ": expected a folder in which ", UserText(user),
      " cannot rename root's files, because root's agent works there for ranks "
      "of that user; found mode ",
      absl::StrFormat("%04o", info.st_mode & 07777), " of user ", info.st_uid,
      "; run `chown root ", parent, " && chmod 1777 ", parent,
      "` on this node, or leave out --rank-user"));
}

// Why the run folder, which has gone, cannot be made again. errno: of the
// attempt.
std::string WhyNotMade(const std::string& path) {
  const int error = errno;
  struct stat info;
  if (error != EEXIST || lstat(path.c_str(), &info) != 0) {
    return absl::StrCat("cannot make the folder ", path,
                        " again: ", strerror(error));
  }
  return absl::StrCat(path,
                      ": expected the run folder that this agent made, found ",
                      S_ISDIR(info.st_mode)   ? "another folder"
                      : S_ISLNK(info.st_mode) ? "a symbolic link"
                                              : "a file",
                      " of user ", info.st_uid, "; remove it, and exclude ",
                      path.substr(0, path.rfind('/') + 1),
                      "rollcall-* from what cleans this folder");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Make(
    const std::string& runtime_dir, const std::string& job,
    const std::string& node, absl::Duration patience,
    const std::function<void(const std::string&)>& waits,
    const SystemUser* user) {
  const std::string random = absl::BytesToHexString(RandomBytes(4));
  const std::string owner = absl::StrCat(job, " ", node);
  struct Place {
    std::string parent;
    std::string prefix;
  };
  const Place places[] = {{runtime_dir, "rollcall-"},
                          {"/tmp", absl::StrCat("rollcall-", getuid(), "-")}};
  if (user != nullptr) {
    if (absl::Status s = CheckParent("/tmp", *user); !s.ok()) return s;
  }
  std::string failure;
  std::unique_ptr<RunFolder> made;
  for (const Place& place : places) {
    const std::string path =
        absl::StrCat(place.parent, "/", place.prefix, random);
    if (place.parent.empty() ||
        path.size() + sizeof(kSocketName) - 1 > kSocketPathBytesMax ||
        (user != nullptr && place.parent != "/tmp")) {
      continue;
    }
    if (Fd folder = MakeLocked(path, user); folder.open()) {
      made.reset(new RunFolder(path, std::move(folder), owner, user));
      break;
    }
    failure = absl::StrCat(
        "cannot make the folder ", path, ": ", strerror(errno),
        user == nullptr ? "; set XDG_RUNTIME_DIR to one that can be written"
                        : "");
  }
  if (made == nullptr) return absl::UnavailableError(failure);
  // Waits a moment first; then, if waiting can help, for `patience`.
  for (const bool again : {false, true}) {
    Leftovers found;
    for (const Place& place : places) {
      if (place.parent.empty()) continue;
      const Fd turn = again ? Fd() : AwaitTurn(place.parent, place.prefix);
      SweepLeftovers(place.parent, place.prefix, owner,
                     again ? patience : kSweepPatience, again, found);
    }
    if (!again) made->living_ = std::move(found.living);
    made->Record(found.swept);
    made->swept_ = made->lives_;
    for (const std::string& folder : found.folders) RemoveFolder(folder);
    if (found.alive.left.empty() && found.alive.denied.empty()) break;
    const std::string text = LeftText(found.alive);
    // Another user's processes do not die because we wait.
    if (!found.alive.denied.empty() || again || patience <= kSweepPatience) {
      return absl::UnavailableError(text);
    }
    if (waits) waits(text);
  }
  return made;
}

RunFolder::RunFolder(std::string path, Fd folder, std::string owner,
                     const SystemUser* user)
    : path_(std::move(path)),
      folder_(std::move(folder)),
      owner_(std::move(owner)),
      user_(user == nullptr ? std::nullopt : std::optional(*user)) {}

RunFolder::~RunFolder() {
  if (!lives_.empty()) {
    RemoveAllButRecords(folder_.get());
    return;
  }
  RemoveEntries(folder_.get());
  // Fails if there is a link now, or a folder with entries.
  rmdir(path_.c_str());
}

absl::Status RunFolder::Add(uint64_t generation) {
  if (absl::Status s = EnsureInPlace(); !s.ok()) return s;
  const std::string name = GenerationName(generation);
  Fd made;
  if (mkdirat(folder_.get(), name.c_str(), kMode) == 0 || errno == EEXIST) {
    made = Fd(openat(folder_.get(), name.c_str(),
                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (made.open() &&
      (!user_ || fchown(made.get(), user_->uid, user_->gid) == 0)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path_, "/", name, ": ", strerror(errno)));
}

absl::Status RunFolder::EnsureInPlace() {
  struct stat ours, there;
  if (fstat(folder_.get(), &ours) == 0 && lstat(path_.c_str(), &there) == 0 &&
      ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) {
    return absl::OkStatus();
  }
  // An empty folder is no loss: a check of this node (TryFolder) may have made
  // it just now.
  rmdir(path_.c_str());
  Fd made = MakeLocked(path_, user_ ? &*user_ : nullptr);
  if (!made.open()) return absl::FailedPreconditionError(WhyNotMade(path_));
  folder_ = std::move(made);
  WriteIncarnations();
  return absl::OkStatus();
}

void RunFolder::Record(const std::vector<std::string>& nonces) {
  if (nonces.empty()) return;
  lives_.insert(lives_.end(), nonces.begin(), nonces.end());
  const size_t most = Limits::swept_max;
  if (lives_.size() > most) lives_.erase(lives_.begin(), lives_.end() - most);
  WriteIncarnations();
}

void RunFolder::WriteIncarnations() {
  if (lives_.empty()) return;
  std::string text;
  const std::string here = PidScope();
  for (const std::string& nonce : lives_) {
    absl::StrAppend(&text, owner_, " ", here, " ",
                    absl::BytesToHexString(nonce), "\n");
  }
  WriteFileAt(folder_.get(), kIncarnationsName + 1, text, 0600).IgnoreError();
}

void RunFolder::RecordIncarnation(const std::string& nonce) {
  if (lives_.empty() || lives_.back() != nonce) Record({nonce});
}

void RunFolder::ForgetIncarnations() {
  lives_.clear();
  unlinkat(folder_.get(), kIncarnationsName + 1, 0);
}

std::string RunFolder::socket() const {
  return absl::StrCat(path_, kSocketName);
}

void RunFolder::Remove(uint64_t generation) {
  RemoveEntry(folder_.get(), GenerationName(generation));
}

}  // namespace rollcall
