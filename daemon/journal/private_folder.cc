#include "daemon/journal/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/files/write_error.h"

namespace rollcall {
namespace {

constexpr mode_t kOthers = 077;
constexpr mode_t kOthersWrite = 022;

// Closes the result of opendir.
struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

bool IsDots(const char* name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool IsEmpty(DIR* folder) {
  rewinddir(folder);
  while (const dirent* entry = readdir(folder)) {
    if (!IsDots(entry->d_name)) return false;
  }
  return true;
}

// What is wrong with a file of the folder; empty: nothing.
std::string WrongFile(const struct stat& file) {
  if (S_ISDIR(file.st_mode)) return "";  // Subfolders are not used.
  if (!S_ISREG(file.st_mode)) {
    return "expected a regular file, got a link, a pipe or a device";
  }
  if (file.st_uid != geteuid()) {
    return absl::StrCat("expected a file of user ", geteuid(),
                        ", who runs this, got one of user ", file.st_uid);
  }
  if (file.st_nlink > 1) {
    return absl::StrCat("expected a file with one name, got one with ",
                        file.st_nlink, " (hard links)");
  }
  return "";
}

absl::Status CheckFiles(const std::string& path, DIR* folder) {
  rewinddir(folder);
  while (const dirent* entry = readdir(folder)) {
    if (IsDots(entry->d_name)) continue;
    struct stat file;
    if (fstatat(dirfd(folder), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) !=
        0) {
      // A daemon that ends removes its own files.
      if (errno == ENOENT) continue;
      return UnusableFolder(
          path, absl::StrCat("cannot look at ", path, "/", entry->d_name, ": ",
                             strerror(errno)));
    }
    const std::string wrong = WrongFile(file);
    if (wrong.empty()) continue;
    return UnusableFolder(path, absl::StrCat(path, "/", entry->d_name, ": ",
                                             wrong, "; remove it"));
  }
  return absl::OkStatus();
}

// Removes other users' access, if no other user can have put files into the
// folder.
absl::Status CloseToOthers(const std::string& path, const std::string& mark,
                           DIR* folder, mode_t mode) {
  const bool others_write = (mode & kOthersWrite) != 0;
  const bool marked =
      !others_write && faccessat(dirfd(folder), mark.c_str(), F_OK, 0) == 0;
  const auto refuse = [&] {
    return UnusableFolder(
        path,
        absl::StrCat(
            "expected one that is empty or closed to other users, got mode 0",
            absl::StrFormat("%o", mode & 07777), " and files in it; ",
            others_write
                ? "make sure that no other user has put them there, and "
                : "",
            "`chmod 700 ", path, "` if it is used only for this"));
  };
  if (!marked && !IsEmpty(folder)) return refuse();
  if (fchmod(dirfd(folder), 0700) != 0) {
    return UnusableFolder(path, absl::StrCat("cannot close it to other users: ",
                                             strerror(errno)));
  }
  // Checks again for files that came before the change of mode.
  if (marked || IsEmpty(folder)) return absl::OkStatus();
  fchmod(dirfd(folder), mode & 07777);
  return refuse();
}

}  // namespace

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
      return UnusableFolder(path, absl::StrCat("cannot make ", part, ": ",
                                               WriteErrorText(errno, part)));
    }
    if (end == std::string::npos) break;
  }
  struct stat found;
  if (stat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return UnusableFolder(path, "expected a folder, got something else");
  }
  const Folder folder(opendir(path.c_str()));
  if (folder == nullptr || fstat(dirfd(folder.get()), &found) != 0) {
    return UnusableFolder(path,
                          absl::StrCat("cannot open it: ", strerror(errno)));
  }
  if (found.st_uid != geteuid()) {
    return UnusableFolder(
        path, absl::StrCat("expected one of user ", geteuid(),
                           ", who runs this, got one of user ", found.st_uid));
  }
  if ((found.st_mode & kOthers) != 0) {
    absl::Status closed =
        CloseToOthers(path, mark, folder.get(), found.st_mode);
    if (!closed.ok()) return closed;
  }
  return CheckFiles(path, folder.get());
}

absl::Status WriteHolder(const std::string& folder, const std::string& name,
                         int fd) {
  const std::string pid = absl::StrCat(getpid(), "\n");
  int error = ftruncate(fd, 0) == 0 ? 0 : errno;
  if (error == 0) error = WriteWhole(fd, pid);
  if (error == 0) return absl::OkStatus();
  const std::string path = absl::StrCat(folder, "/", name);
  return UnusableFolder(folder, absl::StrCat("cannot write ", path, ": ",
                                             WriteErrorText(error, path)));
}

absl::StatusOr<int> OpenPrivateFile(const std::string& folder,
                                    const std::string& name) {
  const std::string path = absl::StrCat(folder, "/", name);
  // Non-blocking, since opening a pipe would block.
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
           0600);
  struct stat file;
  std::string wrong;
  if (fd < 0 || fstat(fd, &file) != 0) {
    wrong = WriteErrorText(errno, path);
  } else if (!S_ISREG(file.st_mode)) {
    wrong = "expected a regular file";
  } else {
    wrong = WrongFile(file);
  }
  if (wrong.empty()) return fd;
  if (fd >= 0) close(fd);
  return UnusableFolder(path.substr(0, path.size() - name.size() - 1),
                        absl::StrCat("cannot open ", path, ": ", wrong));
}

}  // namespace rollcall
