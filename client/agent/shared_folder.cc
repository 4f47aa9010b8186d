#include "client/agent/shared_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/facts/same_files.h"
#include "daemon/base/files/fd.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr size_t kMarkBytes = 32;

std::string WriteNew(const std::string& path, const std::string& text) {
  const Fd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd.get() < 0) return std::strerror(errno);
  if (write(fd.get(), text.data(), text.size()) ==
      static_cast<ssize_t>(text.size())) {
    return "";
  }
  return std::strerror(errno);
}

// Makes the mark unless there is one. Returns what does not work; empty: a file
// can be written there.
std::string MakeMark(const std::string& mark) {
  const std::string text = absl::BytesToHexString(RandomBytes(kMarkBytes));
  const std::string path =
      absl::StrCat(mark, "-", absl::BytesToHexString(RandomBytes(8)));
  std::string why = WriteNew(path, text);
  // The link appears with all of its contents, and fails if there is a mark,
  // whatever an NFS client has cached. Some file systems have no links.
  if (why.empty() && link(path.c_str(), mark.c_str()) != 0 && errno != EEXIST) {
    WriteNew(mark, text);
  }
  unlink(path.c_str());
  return why;
}

}  // namespace

std::string SharedFolderPath(const std::string& folder) {
  return absl::EndsWith(folder, "/") ? folder : absl::StrCat(folder, "/");
}

v1::SameFile LookAtSharedFolder(const std::string& folder) {
  const std::string mark =
      absl::StrCat(SharedFolderPath(folder), ".rollcall-shared");
  v1::SameFile file;
  const std::string why = MakeMark(mark);
  if (why.empty()) {
    file = ReadSameFile(mark);
  } else {
    file.set_error(absl::StrCat("no file can be written there: ", why));
  }
  file.set_path(SharedFolderPath(folder));
  return file;
}

}  // namespace rollcall
