#include "client/agent/processes/output/log_folder.h"

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
  // O_NOFOLLOW and O_DIRECTORY give these errors for a link.
  if (error == ELOOP || error == ENOTDIR) {
    return Wrong(path, "a folder or file of rollcall's own",
                 "a symbolic link or something else");
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", strerror(error),
                   "; permit writing there, or choose another folder with "
                   "--log-dir"));
}

// Makes `path` and its missing parents. Errors appear when the folder is
// opened.
void MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), kFolderMode);
    if (end == std::string::npos) return;
  }
}

absl::StatusOr<Fd> OpenIn(int folder, const std::string& name,
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
  // A file of an older release may be readable by other users.
  if (fchmod(file.get(), kFileMode) != 0) return Failed(path, errno);
  return file;
}

}  // namespace

absl::Status LogFolder::Hold() {
  if (folder_.open()) return absl::OkStatus();
  MakeFolders(path_);
  folder_ = Fd(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder_.open() ? absl::OkStatus() : Failed(path_, errno);
}

absl::StatusOr<Fd> LogFolder::OpenSubfolder(const std::string& name) {
  if (absl::Status s = Hold(); !s.ok()) return s;
  bool made = mkdirat(folder_.get(), name.c_str(), kFolderMode) == 0;
  // The folder itself was removed.
  if (!made && (errno == ENOENT || errno == ESTALE)) {
    folder_.Close();
    if (absl::Status s = Hold(); !s.ok()) return s;
    made = mkdirat(folder_.get(), name.c_str(), kFolderMode) == 0;
  }
  const std::string path = absl::StrCat(path_, "/", name);
  Fd subfolder(openat(folder_.get(), name.c_str(),
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!subfolder.open()) return Failed(path, errno);
  struct stat status;
  if (fstat(subfolder.get(), &status) != 0) return Failed(path, errno);
  // The owner of a new folder is not checked: a file server may give root's
  // files to another user.
  if (!made && status.st_uid != geteuid()) {
    return Wrong(path, absl::StrCat("a folder of user ", geteuid()),
                 absl::StrCat("one of user ", status.st_uid));
  }
  return subfolder;
}

absl::StatusOr<Fd> LogFolder::OpenFile(const std::string& subfolder,
                                       const std::string& name) {
  const absl::StatusOr<Fd> folder = OpenSubfolder(subfolder);
  if (!folder.ok()) return folder.status();
  return OpenIn(folder->get(), name,
                absl::StrCat(path_, "/", subfolder, "/", name));
}

}  // namespace rollcall
