// PrivateFolder: a folder for secrets, which nobody else may look into or have
// his hands in.
#ifndef ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_
#define ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace rollcall {

// Makes `path`, and what is missing above it, with mode 0700. One that exists
// must be a folder of this user's; one that others may look into is closed to
// them where it is empty or holds `mark`, a file that shows that it is ours
// (a folder that is for something else, /tmp say, is left as it is).
// FAILED_PRECONDITION: it is not so, or cannot be made; says what to do.
absl::Status MakePrivateFolder(const std::string& path,
                               const std::string& mark);

// FAILED_PRECONDITION: the state folder `path` cannot be used, for this reason.
absl::Status UnusableFolder(const std::string& path, const std::string& what);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_PRIVATE_FOLDER_H_
