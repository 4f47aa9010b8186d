#include "daemon/base/files/write_error.h"

#include <poll.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/bytes_text.h"

namespace rollcall {
namespace {

bool LacksSpace(int error) { return error == ENOSPC || error == EDQUOT; }

std::string FolderOf(const std::string& file) {
  const size_t slash = file.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

}  // namespace

std::optional<FreeSpace> FreeSpaceOf(const std::string& folder) {
  struct statvfs found = {};
  if (statvfs(folder.c_str(), &found) != 0) return std::nullopt;
  FreeSpace space;
  // f_bavail leaves out the blocks that are reserved for root.
  space.free_bytes = uint64_t{found.f_bavail} * found.f_frsize;
  space.size_bytes = uint64_t{found.f_blocks} * found.f_frsize;
  space.free_files = found.f_favail;
  space.files_max = found.f_files;
  return space;
}

std::string WriteErrorText(int error, const std::string& folder,
                           const std::optional<FreeSpace>& space) {
  const char* said = std::strerror(error);
  if (!LacksSpace(error)) return said;
  if (!space.has_value()) return absl::StrCat(said, " (", folder, ")");
  std::string text =
      absl::StrCat(said, " (", folder, ": ", BytesText(space->free_bytes),
                   " of ", BytesText(space->size_bytes), " free");
  if (space->files_max > 0 && space->free_files == 0) {
    absl::StrAppend(&text, ", and all of its ", space->files_max,
                    " files are used");
  }
  return text + ")";
}

std::string WriteErrorText(int error, const std::string& file) {
  const std::string folder = FolderOf(file);
  if (error == ENOENT && access(folder.c_str(), F_OK) != 0) {
    return absl::StrCat("the folder ", folder,
                        " does not exist; if it was moved, move it back");
  }
  return WriteErrorText(error, folder, FreeSpaceOf(folder));
}

int WriteWhole(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      pollfd polled{fd, POLLOUT, 0};
      poll(&polled, 1, -1);
      continue;
    }
    // A full disk may take a part of the text; then the next write returns the
    // error.
    if (wrote <= 0) return wrote < 0 ? errno : EIO;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

}  // namespace rollcall
