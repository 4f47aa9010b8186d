// Opens a rank's log file without following links that other users made.
//
// Thread rule: any thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_LOG_FILE_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_LOG_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

namespace rollcall {

// Makes missing folders (0700) and opens the file for appending, with mode
// 0600. Symbolic links are followed only above the file's folder, in the part
// of the path that the user named.
//
// FAILED_PRECONDITION: the folder or the file is a link, belongs to another
// user, is not a regular file, or has hard links; or the system's error.
absl::StatusOr<Fd> OpenLogFile(const std::string& path);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_LOG_FILE_H_
