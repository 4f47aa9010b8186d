// PrivateFolder: a folder for secrets that no other user can read or write.
#ifndef ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_
#define ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

// The lock files in a state folder: the daemon's, and that of the launcher
// whose daemon uses the folder. A folder with only the first one is
// rollcalld's.
inline constexpr char kDaemonLock[] = "daemon.lock";
inline constexpr char kLauncherLock[] = "lock";

// Creates `path`, and its missing parents, with mode 0700. An existing path
// must be a folder of this user. Its mode may let others write to it only while
// it is empty, and let them read it only while it is empty or contains `mark`,
// a file that shows that it is ours; its mode is then set to 0700. Any other
// folder (for example /tmp) is left unchanged. Files in it must be regular
// files of this user without further hard links, because another user may have
// put other files there before the mode was 0700. FAILED_PRECONDITION: a
// condition does not hold, or the folder cannot be created; the message says
// what to do.
absl::Status MakePrivateFolder(const std::string& path,
                               const std::string& mark);

// Opens a file of a private folder for reading and writing, and creates it
// (0600) if it is missing; never follows a link. The caller closes the
// descriptor. FAILED_PRECONDITION: it cannot be opened; the message says why.
absl::StatusOr<int> OpenPrivateFile(const std::string& folder,
                                    const std::string& name);

// Writes this process's pid into a lock file that the caller has just opened
// and locked. FAILED_PRECONDITION: it cannot be written; the message says why.
absl::Status WriteHolder(const std::string& folder, const std::string& name,
                         int fd);

// FAILED_PRECONDITION: the state folder `path` cannot be used, for this reason.
absl::Status UnusableFolder(const std::string& path, const std::string& what);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_
