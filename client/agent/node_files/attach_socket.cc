#include "client/agent/node_files/attach_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/agent/node_files/run_folder.h"

namespace rollcall {
namespace {

absl::Status Failed(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("--socket: ", path, ": ", strerror(errno)));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status MakeFolder(const std::string& folder, const SystemUser* user) {
  if (mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? absl::OkStatus() : Failed(folder);
  }
  if (user != nullptr && (lchown(folder.c_str(), -1, user->gid) != 0 ||
                          chmod(folder.c_str(), 0710) != 0)) {
    return Failed(folder);
  }
  return absl::OkStatus();
}

// If another user could replace the socket, that user could give ranks a false
// world.
absl::Status CheckFolder(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) return Failed(folder);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--socket: ", folder, " is no folder"));
  }
  const bool open_to_all =
      (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
  if (!open_to_all) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--socket: expected a folder in which not all users can rename files; ",
      folder, " has mode ", absl::StrFormat("%04o", info.st_mode & 07777),
      "; name a subfolder, which the agent makes: ", folder,
      "/rollcall/agent.sock"));
}

// Whether a process listens on the socket at `path`.
bool Answers(const std::string& path) {
  const Fd probe(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  // EAGAIN: a process listens, and its queue is full.
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) == 0 ||
         errno == EAGAIN;
}

absl::Status InUse(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("--socket: an agent that lives listens on ", path,
                   "; end it, or give each agent a path of its own"));
}

// Removes the socket of a dead agent.
absl::Status Clear(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus() : Failed(path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--socket: expected a socket or nothing at ", path,
                     ", found something else; remove it or name another path"));
  }
  if (Answers(path)) return InUse(path);
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : Failed(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachSocket>> AttachSocket::Take(
    const std::string& path, const SystemUser* user) {
  if (path.empty() || path[0] != '/' || path.back() == '/' ||
      path.size() > kSocketPathBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--socket: expected an absolute path of at most ", kSocketPathBytesMax,
        " bytes, got one of ", path.size(), ": ", path));
  }
  const std::string folder = FolderOf(path);
  absl::Status good = MakeFolder(folder, user);
  if (good.ok()) good = CheckFolder(folder);
  if (!good.ok()) return good;
  const std::string lock_path = path + ".lock";
  Fd lock(
      open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.open()) return Failed(lock_path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? InUse(path) : Failed(lock_path);
  }
  good = Clear(path);
  if (!good.ok()) return good;
  return std::unique_ptr<AttachSocket>(new AttachSocket(path, std::move(lock)));
}

AttachSocket::~AttachSocket() { unlink(path_.c_str()); }

}  // namespace rollcall
