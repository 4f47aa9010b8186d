#include "daemon/journal/default_state.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

// Permission bits of users other than the owner.
constexpr mode_t kAnother = 077;
constexpr mode_t kAnotherWrites = 022;

bool IsAbsolute(const std::string& path) { return absl::StartsWith(path, "/"); }

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string Why() { return std::strerror(errno); }

bool IsUsable(const std::string& root) {
  return faccessat(AT_FDCWD, root.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0;
}

// Creates the standard root. Returns why no state can be kept there; empty: it
// can be kept.
std::string MakeStandard(const std::string& root) {
  if (root.empty()) {
    return "HOME is not set, and the user database has no home for this user";
  }
  if (IsUsable(root)) return "";
  for (size_t end = root.find('/', 1);; end = root.find('/', end + 1)) {
    const std::string part = root.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::StrCat("cannot make ", part, ": ", Why());
    }
    if (end == std::string::npos) break;
  }
  if (IsUsable(root)) return "";
  return absl::StrCat("cannot write to ", root, ": ", Why());
}

// Why an existing fallback root cannot be used; empty: it can.
std::string CheckFallback(const std::string& root) {
  struct stat found;
  // lstat: a symbolic link may lead to a folder that another user has chosen.
  if (lstat(root.c_str(), &found) != 0) {
    return absl::StrCat("cannot look at ", root, ": ", Why());
  }
  if (!S_ISDIR(found.st_mode)) {
    return absl::StrCat(root,
                        ": expected a folder, got a link or something else");
  }
  if (found.st_uid != geteuid()) {
    return absl::StrCat(root, ": expected a folder of user ", geteuid(),
                        ", who runs this, got one of user ", found.st_uid);
  }
  if ((found.st_mode & kAnother) != 0) {
    return absl::StrFormat(
        "%s: expected mode 0700, got 0%o, which lets other users in; see what "
        "is in it, and `chmod 700 %s`",
        root, found.st_mode & 07777, root);
  }
  return "";
}

std::string MakeFallback(const std::string& root) {
  if (mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::StrCat("cannot make ", root, ": ", Why());
  }
  return CheckFallback(root);
}

bool IsKnown(const std::string& root, const std::string& name,
             const std::vector<std::string>& marks) {
  for (const std::string& mark : marks) {
    const std::string path = absl::StrCat(root, "/", name, mark);
    if (!root.empty() && access(path.c_str(), F_OK) == 0) return true;
  }
  return false;
}

// Whether other users may replace the folder `root` with one of theirs, because
// its parent is writable for them and has no sticky bit. For example,
// Kubernetes mounts an emptyDir on /tmp this way.
bool OthersReplace(const std::string& root) {
  const std::string parent = root.substr(0, root.rfind('/') + 1);
  struct stat found;
  return stat(parent.c_str(), &found) == 0 &&
         (found.st_mode & kAnotherWrites) != 0 &&
         (found.st_mode & S_ISVTX) == 0;
}

std::string Notice(const std::string& folder, const StateRoots& roots,
                   const std::string& trouble) {
  std::string notice = absl::StrCat(
      "state is kept in ", folder, " and not below ",
      roots.standard.empty() ? "a home" : roots.standard, ": ",
      trouble.empty() ? "a run that was started there continues" : trouble,
      "; a restart of this machine or container may remove it, and then the "
      "run cannot be continued; --state DIR keeps it elsewhere");
  if (OthersReplace(roots.fallback)) {
    absl::StrAppend(&notice,
                    "; other users may replace it, since the folder above it "
                    "has no sticky bit");
  }
  return notice;
}

}  // namespace

StateOrigin ThisStateOrigin() {
  StateOrigin origin;
  origin.xdg_state_home = Variable("XDG_STATE_HOME");
  origin.home = Variable("HOME");
  origin.tmpdir = Variable("TMPDIR");
  origin.user = geteuid();
  const passwd* user = getpwuid(origin.user);
  if (user != nullptr) origin.user_home = user->pw_dir;
  return origin;
}

StateRoots RootsOf(const StateOrigin& origin) {
  StateRoots roots;
  absl::string_view tmpdir = "/tmp";
  if (IsAbsolute(origin.tmpdir)) tmpdir = origin.tmpdir;
  while (absl::ConsumeSuffix(&tmpdir, "/")) {
  }
  roots.fallback = absl::StrCat(tmpdir, "/rollcall-state-", origin.user);
  // The XDG specification says that a relative path is not valid.
  if (IsAbsolute(origin.xdg_state_home)) {
    roots.standard = absl::StrCat(origin.xdg_state_home, "/rollcall");
    return roots;
  }
  std::string home = origin.home;
  if (!IsAbsolute(home)) home = origin.user_home;
  if (!IsAbsolute(home)) home = origin.user == 0 ? "/root" : "";
  if (!home.empty()) {
    roots.standard = absl::StrCat(home, "/.local/state/rollcall");
  }
  return roots;
}

RootChoice ChooseRoot(const RootFound& standard, const RootFound& fallback) {
  // The folder with the existing state may be usable even if no new folder can
  // be created in this root.
  if (standard.known) return RootChoice::kStandard;
  const bool falls_back = fallback.trouble.empty();
  if (falls_back && fallback.known) return RootChoice::kFallback;
  if (standard.trouble.empty()) return RootChoice::kStandard;
  return falls_back ? RootChoice::kFallback : RootChoice::kNone;
}

absl::StatusOr<DefaultState> MakeDefaultState(
    const StateRoots& roots, const std::string& name,
    const std::vector<std::string>& marks) {
  RootFound standard{MakeStandard(roots.standard),
                     IsKnown(roots.standard, name, marks)};
  // The fallback root is created only if it is needed.
  RootFound fallback{standard.trouble.empty() ? CheckFallback(roots.fallback)
                                              : MakeFallback(roots.fallback)};
  fallback.known =
      fallback.trouble.empty() && IsKnown(roots.fallback, name, marks);
  DefaultState state;
  switch (ChooseRoot(standard, fallback)) {
    case RootChoice::kStandard:
      state.folder = absl::StrCat(roots.standard, "/", name);
      return state;
    case RootChoice::kFallback:
      state.folder = absl::StrCat(roots.fallback, "/", name);
      state.notice = Notice(state.folder, roots, standard.trouble);
      return state;
    case RootChoice::kNone:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no folder for state: ", standard.trouble, "; ", fallback.trouble,
      "; give one with --state DIR, or set TMPDIR to a folder of your own"));
}

std::vector<std::string> RootsToSearch(const StateRoots& roots) {
  std::vector<std::string> found;
  if (!roots.standard.empty()) found.push_back(roots.standard);
  if (CheckFallback(roots.fallback).empty()) found.push_back(roots.fallback);
  return found;
}

}  // namespace rollcall
