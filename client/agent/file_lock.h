// FileLock: one process (or thread) at a time, machine-wide, for a resource
// that cannot carry a lock itself.
//
// A lock file in a lock folder, held with flock(2): the kernel gives it back
// however its holder ends. The file stays; it is empty. The file is trusted
// only if this user or root owns it, so that in a folder that all may write to
// nobody else can hold us up or lead us astray.
//
// Thread rule: any thread; each FileLock belongs to one.
#ifndef ROLLCALL_CLIENT_AGENT_FILE_LOCK_H_
#define ROLLCALL_CLIENT_AGENT_FILE_LOCK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rollcall {

class FileLock {
 public:
  // Takes `<folder>/<name>` in the first of `folders` where that can be done.
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
