// A rank's log file, opened without following links that other users made.
//
// Thread rule: any thread.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_LOG_FILE_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_LOG_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

namespace rollcall {

// Makes the folders (0700) that are missing, and opens the file for appending,
// with mode 0600. Symbolic links are followed up to the folder's
// parent only, which the user named.
//
// FAILED_PRECONDITION: the folder or the file is a link, is not this user's, is
// not a plain file, or has other names (hard links); or the system's reason.
absl::StatusOr<Fd> OpenLogFile(const std::string& path);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_LOG_FILE_H_
