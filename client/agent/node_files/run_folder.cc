#include "client/agent/node_files/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/agent/node_files/leftovers.h"
#include "client/agent/node_files/remove_entries.h"
#include "client/agent/node_files/world_files.h"
#include "client/agent/processes/process_tree/left_processes.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "client/facts/system/system.h"
#include "daemon/core/limits.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr mode_t kMode = 0700;
// Ranks of another user enter the folder through their group, but cannot list
// it.
constexpr mode_t kModeForGroup = 0710;
constexpr absl::Duration kSweepPatience = absl::Milliseconds(500);

constexpr char kAttachSocketName[] = "/ranks.sock";
static_assert(sizeof(kAttachSocketName) <= sizeof(kSocketName));

// Makes and locks the folder of one agent, which ranks of `user` may enter. Not
// open: errno is set.
Fd MakeLocked(const std::string& path, const SystemUser* user) {
  // Fails if another user has already made something at this path.
  if (mkdir(path.c_str(), kMode) != 0) return Fd();
  Fd folder = OpenOwn(path);
  if (folder.open() &&
      (user == nullptr || (fchown(folder.get(), -1, user->gid) == 0 &&
                           fchmod(folder.get(), kModeForGroup) == 0))) {
    // On a file system without locks the folder stays unlocked.
    flock(folder.get(), LOCK_EX | LOCK_NB);
    return folder;
  }
  const int error = errno;
  rmdir(path.c_str());
  errno = error;
  return Fd();
}

std::string GenerationName(uint64_t generation) {
  return absl::StrCat("gen-", generation);
}

// Checks that the ranks' user cannot rename root's folders in `parent`.
// Otherwise that user could make root use another folder at any time.
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

// Why the run folder, which was removed, cannot be made again. errno must be
// that of the attempt.
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
  // The first sweep waits only a short time. The second one waits for
  // `patience`, and is done only if waiting can help.
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
    // Waiting does not help if the processes belong to another user.
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
  // Fails if the path is now a link, or a folder with entries.
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
  // If an empty folder is there, it is removed: a check of this node
  // (TryFolder) may have just made it.
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

std::string RunFolder::attach_socket() const {
  return absl::StrCat(path_, kAttachSocketName);
}

void RunFolder::Remove(uint64_t generation) {
  RemoveEntry(folder_.get(), GenerationName(generation));
}

}  // namespace rollcall
