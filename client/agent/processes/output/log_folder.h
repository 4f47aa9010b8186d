// LogFolder: the folder of --log-dir. The files of ranks' output are opened in
// it without following links that other users made.
//
// It is opened once and held open, so that a user who can rename it or a folder
// above it cannot make the agent use another folder: files that are opened
// later are made in the folder that was opened first.
//
// Thread rule: one thread, except path().
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_LOG_FOLDER_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_LOG_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

class LogFolder {
 public:
  // Opens nothing yet.
  explicit LogFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // Opens the folder unless it is open; makes it and missing parents (0700).
  // Follows symbolic links in its path, because the user named it. Safe to
  // repeat. FAILED_PRECONDITION: the system's error.
  absl::Status Hold();

  // Opens the file `subfolder`/`name` for appending, with mode 0600, and makes
  // the subfolder if it is missing (0700). If the folder itself was removed, it
  // is made again.
  //
  // FAILED_PRECONDITION: the subfolder or the file is a link, belongs to
  // another user, is not a regular file, or has hard links; or the system's
  // error.
  absl::StatusOr<Fd> OpenFile(const std::string& subfolder,
                              const std::string& name);

 private:
  absl::StatusOr<Fd> OpenSubfolder(const std::string& name);

  const std::string path_;
  Fd folder_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_OUTPUT_LOG_FOLDER_H_
