#include "daemon/base/processes/system_user.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

constexpr size_t kEntryBytesMax = 1 << 20;
// The kernel's NGROUPS_MAX.
constexpr int kGroupsMax = 65536;

// UINT32_MAX is the kernel's "no id": a call that sets ids leaves that id
// unchanged.
bool IsId(uint32_t id) { return id != UINT32_MAX; }

bool ReadId(absl::string_view text, uint32_t* id) {
  return !text.empty() && absl::ascii_isdigit(text[0]) &&
         absl::SimpleAtoi(text, id) && IsId(*id);
}

absl::Status Unknown(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a user of this machine, got '", text,
      "', which is unknown here; see `getent passwd`, or give UID:GID"));
}

// Looks up the entry of a name or, if `name` is empty, of a uid.
absl::StatusOr<SystemUser> Look(const std::string& name, uid_t uid,
                                const std::string& text) {
  std::vector<char> room(1024);
  passwd entry = {};
  passwd* found = nullptr;
  int error = 0;
  while (true) {
    error = name.empty()
                ? getpwuid_r(uid, &entry, room.data(), room.size(), &found)
                : getpwnam_r(name.c_str(), &entry, room.data(), room.size(),
                             &found);
    if (error != ERANGE || room.size() >= kEntryBytesMax) break;
    room.resize(room.size() * 2);
  }
  if (found == nullptr) {
    const bool broken = error == EIO || error == EMFILE || error == ENFILE ||
                        error == ENOMEM || error == ERANGE;
    if (!broken) return Unknown(text);
    return absl::UnavailableError(absl::StrCat(
        "the user database does not answer for '", text, "': ", strerror(error),
        "; try `getent passwd ", text, "`"));
  }
  SystemUser user;
  user.name = entry.pw_name;
  user.uid = entry.pw_uid;
  user.gid = entry.pw_gid;
  if (entry.pw_dir != nullptr && entry.pw_dir[0] == '/') {
    user.home = entry.pw_dir;
  }
  int count = 64;
  do {
    user.groups.resize(count);
  } while (getgrouplist(entry.pw_name, entry.pw_gid, user.groups.data(),
                        &count) < 0 &&
           static_cast<size_t>(count) > user.groups.size() &&
           count <= kGroupsMax);
  user.groups.resize(std::min<size_t>(count, user.groups.size()));
  return user;
}

uint64_t EffectiveCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return 0;
  return data[0].effective | uint64_t{data[1].effective} << 32;
}

// By system call number: the library's functions change the ids of all threads.
void SetGroups(const std::vector<gid_t>& groups) {
  syscall(SYS_setgroups, groups.size(), groups.data());
}

uid_t SetFsUid(uid_t uid) {
  syscall(SYS_setfsuid, uid);
  return static_cast<uid_t>(syscall(SYS_setfsuid, -1));
}

gid_t SetFsGid(gid_t gid) {
  syscall(SYS_setfsgid, gid);
  return static_cast<gid_t>(syscall(SYS_setfsgid, -1));
}

}  // namespace

absl::StatusOr<SystemUser> FindSystemUser(const std::string& text) {
  SystemUser user;
  uint32_t uid = 0;
  const size_t colon = text.find(':');
  if (colon != std::string::npos) {
    if (!ReadId(text.substr(0, colon), &user.uid) ||
        !ReadId(text.substr(colon + 1), &user.gid)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expected a user's name, UID or UID:GID, got '", text, "'"));
    }
  } else {
    if (text.empty()) return Unknown(text);
    const bool is_uid = ReadId(text, &uid);
    absl::StatusOr<SystemUser> found = Look(is_uid ? "" : text, uid, text);
    if (!found.ok()) return found.status();
    user = *std::move(found);
  }
  if (user.uid == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected another user than root, got '", text,
                     "'; ranks run as root without this flag"));
  }
  return user;
}

std::string UserText(const SystemUser& user) {
  return user.name.empty() ? absl::StrCat("user ", user.uid, ":", user.gid)
                           : absl::StrCat("user ", user.name);
}

absl::Status MayActAsOthers() {
  if (geteuid() != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "only root can run ranks as another user, and this is user ", geteuid(),
        "; ranks run as this user without this flag"));
  }
  constexpr std::pair<int, const char*> kNeeded[] = {
      {CAP_SETUID, "CAP_SETUID"},
      {CAP_SETGID, "CAP_SETGID"},
      {CAP_KILL, "CAP_KILL"},
      {CAP_CHOWN, "CAP_CHOWN"},
      {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"}};
  const uint64_t held = EffectiveCapabilities();
  std::vector<std::string> missing;
  for (const auto& [number, name] : kNeeded) {
    if ((held >> number & 1) == 0) missing.push_back(name);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this container's root lacks ", absl::StrJoin(missing, ", "),
      ", which running ranks as another user needs; add it (docker run "
      "--cap-add), or start the container as that user"));
}

std::vector<std::string> EnvironmentOf(
    const SystemUser& user, const std::vector<std::string>& environment) {
  std::vector<std::string> changed;
  for (const std::string& entry : environment) {
    const std::string name = entry.substr(0, entry.find('='));
    if (name != "HOME" && name != "USER" && name != "LOGNAME" &&
        name != "XDG_RUNTIME_DIR") {
      changed.push_back(entry);
    }
  }
  changed.push_back("HOME=" + user.home);
  if (!user.name.empty()) {
    changed.push_back("USER=" + user.name);
    changed.push_back("LOGNAME=" + user.name);
  }
  return changed;
}

std::string FormatIds(const SystemUser& user) {
  return absl::StrCat(user.uid, ":", user.gid, ":",
                      absl::StrJoin(user.groups, ","));
}

std::optional<SystemUser> ParseIds(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  SystemUser user;
  if (parts.size() != 3 || !ReadId(parts[0], &user.uid) || user.uid == 0 ||
      !ReadId(parts[1], &user.gid)) {
    return std::nullopt;
  }
  for (absl::string_view word :
       absl::StrSplit(parts[2], ',', absl::SkipEmpty())) {
    if (!ReadId(word, &user.groups.emplace_back())) return std::nullopt;
  }
  return user;
}

std::optional<SystemUser> OtherUserOf(pid_t pid) {
  if (geteuid() != 0) return std::nullopt;
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  SystemUser user;
  bool has_uid = false, has_gid = false;
  for (std::string line; !(has_uid && has_gid) && std::getline(file, line);) {
    // The real, effective, saved and file system id, each after a tab.
    const std::vector<absl::string_view> words = absl::StrSplit(line, '\t');
    if (words.size() < 2) continue;
    if (words[0] == "Uid:") has_uid = ReadId(words[1], &user.uid);
    if (words[0] == "Gid:") has_gid = ReadId(words[1], &user.gid);
  }
  if (!has_uid || !has_gid || user.uid == 0) return std::nullopt;
  return user;
}

int BecomeUser(const SystemUser& user) {
  if (setgroups(user.groups.size(), user.groups.data()) != 0 ||
      setresgid(user.gid, user.gid, user.gid) != 0 ||
      setresuid(user.uid, user.uid, user.uid) != 0 ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return errno;
  }
  return 0;
}

AsUser::AsUser(const SystemUser* user)
    : changed_(user != nullptr && geteuid() == 0) {
  ok_ = user == nullptr || changed_;
  if (!changed_) return;
  groups_before_.resize(std::max(0, getgroups(0, nullptr)));
  groups_before_.resize(
      std::max(0, getgroups(static_cast<int>(groups_before_.size()),
                            groups_before_.data())));
  prctl(PR_GET_PDEATHSIG, &death_signal_);
  parent_ = getppid();
  SetGroups(user->groups);
  ok_ = SetFsGid(user->gid) == user->gid && SetFsUid(user->uid) == user->uid;
  if (!ok_) Restore();
  SetFlagsAgain();
}

AsUser::~AsUser() {
  if (!changed_) return;
  Restore();
  SetFlagsAgain();
}

// Each change of ids sets the dumpable flag to fs.suid_dumpable, which may be
// 1, and clears the signal for the parent's end.
void AsUser::SetFlagsAgain() {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (death_signal_ == 0) return;
  prctl(PR_SET_PDEATHSIG, death_signal_);
  if (getppid() != parent_) raise(death_signal_);  // It has ended meanwhile.
}

void AsUser::Restore() {
  SetFsUid(geteuid());
  SetFsGid(getegid());
  SetGroups(groups_before_);
}

}  // namespace rollcall
