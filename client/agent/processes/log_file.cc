#include "client/agent/processes/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;

absl::Status Wrong(const std::string& path, const std::string& expected,
                   const std::string& found) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": expected ", expected, ", found ", found,
                   "; remove it, or choose another folder with --log-dir"));
}

absl::Status Failed(const std::string& path, int error) {
  // The errors of O_NOFOLLOW and O_DIRECTORY for a link.
  if (error == ELOOP || error == ENOTDIR) {
    return Wrong(path, "a folder or file of rollcall's own",
                 "a symbolic link or something else");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", strerror(error),
                   "; permit writing there, or choose another folder with "
                   "--log-dir"));
}

// Makes `path` and its missing parents. Errors are reported when it is opened.
void MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), kFolderMode);
    if (end == std::string::npos) return;
  }
}

// Opens the folder `name` in `parent`; makes it if it is missing.
absl::StatusOr<Fd> OpenFolder(int parent, const std::string& name,
                              const std::string& path) {
  const bool made = mkdirat(parent, name.c_str(), kFolderMode) == 0;
  Fd folder(openat(parent, name.c_str(),
                   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.open()) return Failed(path, errno);
  struct stat status;
  if (fstat(folder.get(), &status) != 0) return Failed(path, errno);
  // A file server may give root's files to another user.
  if (!made && status.st_uid != geteuid()) {
    return Wrong(path, absl::StrCat("a folder of user ", geteuid()),
                 absl::StrCat("one of user ", status.st_uid));
  }
  return folder;
}

absl::StatusOr<Fd> OpenFile(int folder, const std::string& name,
                            const std::string& path) {
  constexpr int kFlags =
      O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
  Fd made(openat(folder, name.c_str(), kFlags | O_CREAT | O_EXCL, kFileMode));
  if (made.open()) return made;
  if (errno != EEXIST) return Failed(path, errno);
  Fd file(openat(folder, name.c_str(), kFlags));
  if (!file.open() && errno == ENXIO) {
    return Wrong(path, "a plain file", "a pipe or a socket");
  }
  if (!file.open()) return Failed(path, errno);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return Failed(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Wrong(path, "a plain file", "something else");
  }
  if (status.st_uid != geteuid()) {
    return Wrong(path, absl::StrCat("a file of user ", geteuid()),
                 absl::StrCat("one of user ", status.st_uid));
  }
  if (status.st_nlink > 1) {
    return Wrong(path, "a file of one name",
                 absl::StrCat("one of ", status.st_nlink, " (hard links)"));
  }
  // A file of an older release may be readable for other users.
  if (fchmod(file.get(), kFileMode) != 0) return Failed(path, errno);
  return file;
}

}  // namespace

absl::StatusOr<Fd> OpenLogFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) {
    return Wrong(path, "a file in a folder", "a bare name");
  }
  const std::string folder_path = path.substr(0, slash);
  const size_t above = folder_path.rfind('/');
  const std::string parent_path = above == std::string::npos ? "."
                                  : above == 0               ? "/"
                                               : folder_path.substr(0, above);
  MakeFolders(parent_path);
  const Fd parent(
      open(parent_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.open()) return Failed(parent_path, errno);
  const std::string folder_name =
      above == std::string::npos ? folder_path : folder_path.substr(above + 1);
  const absl::StatusOr<Fd> folder =
      OpenFolder(parent.get(), folder_name, folder_path);
  if (!folder.ok()) return folder.status();
  return OpenFile(folder->get(), path.substr(slash + 1), path);
}

}  // namespace rollcall
