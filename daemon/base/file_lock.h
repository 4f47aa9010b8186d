// FileLock: one process (or thread) at a time, machine-wide, for a resource
// that cannot carry a lock itself.
//
// A lock file in a lock folder, held with flock(2): the kernel gives it back
// however its holder ends. The file stays; it is empty. Which folder depends on
// who may write the resource, and not on who asks: agents of different users
// take the same lock. One that its owner and root alone may write has its lock
// in a folder of its owner: in one like /tmp, other users could make the file
// beforehand, and no lock could be taken. One that others may write as well has
// it where all of them can make it.
//
// Thread rule: any thread; each FileLock belongs to one.
#ifndef ROLLCALL_DAEMON_BASE_FILE_LOCK_H_
#define ROLLCALL_DAEMON_BASE_FILE_LOCK_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rollcall {

// The users that may write the resource.
struct LockUsers {
  uid_t owner = 0;
  // Others than its owner and root.
  bool others = false;

  bool operator==(const LockUsers&) const = default;
};

// The folders for its locks, in order of preference. All processes of one
// machine get the same list, whatever user they run as. For root's resources
// /run/rollcall comes first. Then come folders named after the owner in
// /run/lock and /tmp; if other users may write, these two folders themselves.
std::vector<std::string> LockFolders(const LockUsers& users);

class FileLock {
 public:
  // Takes `<folder>/<name>` in the first of `folders` where that can be done.
  // A folder of the owner that is missing is made, by root only where the owner
  // could make it too. Waits for its holder for at most `timeout`: UNAVAILABLE
  // then (retry is safe). PERMISSION_DENIED: no folder lets us; each is named
  // with its reason.
  static absl::StatusOr<FileLock> Acquire(
      const std::vector<std::string>& folders, const std::string& name,
      const LockUsers& users, absl::Duration timeout);

  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // The folder it lies in, where its holder may keep what goes with it.
  const std::string& folder() const { return folder_; }

 private:
  FileLock(int fd, std::string folder);

  int fd_;
  std::string folder_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_FILE_LOCK_H_
