// PrivateFolder: a folder for secrets that no other user can read or write.
#ifndef ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_
#define ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rollcall {

// The lock files in a state folder: a daemon's, and that of the launcher whose
// daemon uses the folder. A folder with the first alone belongs to rollcalld.
inline constexpr char kDaemonLock[] = "daemon.lock";
inline constexpr char kLauncherLock[] = "lock";

// Makes `path`, and what is missing above it, with mode 0700. One that exists
// must be a folder of this user's. Its mode may let others write to it only
// while it is empty, and let them read it only while it is empty or holds
// `mark`, a file that shows that it is ours; it is then made 0700. Any other
// folder (/tmp, say) is left as it is. Files and links in it must be regular
// files of this user's, each under one name: another user may have put them
// there before the folder was closed.
// FAILED_PRECONDITION: it is not so, or cannot be made; says what to do.
absl::Status MakePrivateFolder(const std::string& path,
                               const std::string& mark);

// Opens a file of a private folder to read and write, and makes it (0600) where
// it is missing; never through a link. The caller closes the descriptor.
// FAILED_PRECONDITION: it cannot be opened; says why.
absl::StatusOr<int> OpenPrivateFile(const std::string& folder,
                                    const std::string& name);

// Writes this process's number into a lock file that it has just opened and
// locked. FAILED_PRECONDITION: it cannot be written; says why.
absl::Status WriteHolder(const std::string& folder, const std::string& name,
                         int fd);

// FAILED_PRECONDITION: the state folder `path` cannot be used, for this reason.
absl::Status UnusableFolder(const std::string& path, const std::string& what);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_
