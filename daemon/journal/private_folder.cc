#include "daemon/journal/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace rollcall {

absl::Status UnusableFolder(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "state folder ", path, ": ", what, "; give another one with --state"));
}

absl::Status MakePrivateFolder(const std::string& path,
                               const std::string& mark) {
  if (path.empty()) return UnusableFolder("\"\"", "expected a path, got none");
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return UnusableFolder(
          path, absl::StrCat("cannot make ", part, ": ", strerror(errno)));
    }
    if (end == std::string::npos) break;
  }
  struct stat found;
  if (stat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return UnusableFolder(path, "expected a folder, got something else");
  }
  if (found.st_uid != geteuid()) {
    return UnusableFolder(
        path, absl::StrCat("expected one of user ", geteuid(),
                           ", who runs this, got one of user ", found.st_uid));
  }
  if ((found.st_mode & 077) == 0) return absl::OkStatus();
  std::error_code failed;
  if (access(absl::StrCat(path, "/", mark).c_str(), F_OK) != 0 &&
      !std::filesystem::is_empty(path, failed)) {
    return UnusableFolder(
        path,
        absl::StrCat(
            "expected one that is empty or closed to other users, got one that "
            "has files in it and is open to them; `chmod 700 ",
            path, "` if it is for this alone"));
  }
  if (chmod(path.c_str(), 0700) == 0) return absl::OkStatus();
  return UnusableFolder(
      path, absl::StrCat("cannot close it to other users: ", strerror(errno)));
}

}  // namespace rollcall
