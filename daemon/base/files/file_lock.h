// FileLock: one process (or thread) at a time, machine-wide, for a resource
// that cannot carry a lock itself.
//
// The lock is a lock file in a lock folder, held with flock(2), so the kernel
// releases it however its holder ends. The file is empty and is never removed.
// The folder depends on which users may write the resource, not on the user who
// takes the lock, so that agents of different users take the same lock. If only
// the owner and root may write the resource, the folder belongs to the owner:
// in a folder like /tmp, other users could make the file first, and then no
// lock could be taken. If other users may write it too, the folder is one in
// which all of them can make files.
//
// Thread rule: any thread; each FileLock belongs to one thread.
#ifndef ROLLCALL_DAEMON_BASE_FILES_FILE_LOCK_H_
#define ROLLCALL_DAEMON_BASE_FILES_FILE_LOCK_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rollcall {

// The users that may write the resource.
struct LockUsers {
  uid_t owner = 0;
  // Users other than the owner and root may write it too.
  bool others = false;

  bool operator==(const LockUsers&) const = default;
};

// The folders for the resource's locks, in order of preference. All processes
// of one machine get the same list, whatever user they run as. For root's
// resources /run/rollcall comes first. Then come folders named after the owner
// in /run/lock and /tmp. If other users may write, the list is /run/lock and
// /tmp themselves.
std::vector<std::string> LockFolders(const LockUsers& users);

class FileLock {
 public:
  // Takes the lock file `<folder>/<name>` in the first usable folder of
  // `folders`. If a folder of the owner is missing, it is made: by the owner,
  // or by root if the parent has mode 1777. UNAVAILABLE: another process held
  // the lock for `timeout` (retry is safe). PERMISSION_DENIED: no folder is
  // usable; the message gives the reason for each.
  static absl::StatusOr<FileLock> Acquire(
      const std::vector<std::string>& folders, const std::string& name,
      const LockUsers& users, absl::Duration timeout);

  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // The folder of the lock file. The holder may keep related files there.
  const std::string& folder() const { return folder_; }

 private:
  FileLock(int fd, std::string folder);

  int fd_;
  std::string folder_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FILES_FILE_LOCK_H_
