// FileLock: one process (or thread) at a time, machine-wide, for a resource
// that cannot carry a lock itself.
//
// A lock file in a lock folder, held with flock(2): the kernel gives it back
// however its holder ends. The file stays; it is empty. Folder and file are
// trusted only if this user or root owns them and nobody else may write to the
// folder: in one like /tmp, other users could make the file beforehand, and no
// lock could be taken.
//
// Thread rule: any thread; each FileLock belongs to one.
#ifndef ROLLCALL_CLIENT_AGENT_FILE_LOCK_H_
#define ROLLCALL_CLIENT_AGENT_FILE_LOCK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rollcall {

// Where this user's locks lie, in order of preference: the same for all
// processes of one user and machine, whatever their environment. Of root:
// /run/rollcall. Of others: /run/user/<uid>, where there is one. Then folders
// named after the user in /run/lock and /tmp.
std::vector<std::string> DefaultLockFolders();

class FileLock {
 public:
  // Takes `<folder>/<name>` in the first of `folders` where that can be done;
  // a folder that is missing is made (0755 by root, 0700 by others).
  // Waits for its holder for at most `timeout`: UNAVAILABLE then (retry is
  // safe). PERMISSION_DENIED: no folder lets us; each is named with its reason.
  static absl::StatusOr<FileLock> Acquire(
      const std::vector<std::string>& folders, const std::string& name,
      absl::Duration timeout);

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

#endif  // ROLLCALL_CLIENT_AGENT_FILE_LOCK_H_
