#include "client/agent/shared_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/agent/node_files/world_files.h"
#include "client/facts/same_files.h"
#include "daemon/base/fd.h"
#include "daemon/security/digest.h"

namespace rollcall {
namespace {

constexpr size_t kMarkBytes = 32;

std::string MarkOf(const std::string& folder, const std::string& job) {
  return absl::StrCat(SharedFolderPath(folder), ".rollcall-shared-", job);
}

// What does not work; empty: a file can be made there.
std::string CannotWrite(const std::string& folder) {
  const std::string path =
      absl::StrCat(SharedFolderPath(folder), ".rollcall-try-",
                   absl::BytesToHexString(RandomBytes(8)));
  const Fd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) {
    return absl::StrCat("no file can be made there: ", std::strerror(errno));
  }
  unlink(path.c_str());
  return "";
}

}  // namespace

std::string SharedFolderPath(const std::string& folder) {
  return absl::EndsWith(folder, "/") ? folder : absl::StrCat(folder, "/");
}

v1::SameFile LookAtSharedFolder(const std::string& folder,
                                const std::string& job) {
  v1::SameFile file = ReadSameFile(MarkOf(folder, job));
  file.set_path(SharedFolderPath(folder));
  if (!file.error().empty()) {
    file.set_error(
        access(folder.c_str(), F_OK) != 0
            ? std::string(std::strerror(errno))
            : absl::StrCat("the launcher's mark is not there: ", file.error()));
    return file;
  }
  if (const std::string why = CannotWrite(folder); !why.empty()) {
    file.clear_sha256();
    file.clear_size_bytes();
    file.set_error(why);
  }
  return file;
}

absl::StatusOr<SharedMarks> SharedMarks::Make(
    const std::vector<std::string>& folders, const std::string& job,
    bool keep) {
  SharedMarks marks;
  for (const std::string& folder : folders) {
    const std::string path = MarkOf(folder, job);
    marks.paths_.push_back(path);
    if (keep && ReadSameFile(path).error().empty()) continue;
    const absl::Status wrote = WriteFileAtomically(
        path, absl::BytesToHexString(RandomBytes(kMarkBytes)), 0644);
    if (!wrote.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--shared ", folder, ": ", std::string(wrote.message()),
          "; expected a folder that this node can write to, since the launcher "
          "leaves a mark there"));
    }
  }
  return marks;
}

SharedMarks::~SharedMarks() {
  for (const std::string& path : paths_) unlink(path.c_str());
}

}  // namespace rollcall
