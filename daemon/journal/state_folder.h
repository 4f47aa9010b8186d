// StateFolder: a daemon's own folder, held by one daemon at a time.
//
// The lock ends when the process ends, even if it is killed. Thread rule: any
// thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_STATE_FOLDER_H_
#define ROLLCALL_DAEMON_JOURNAL_STATE_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace rollcall {

class StateFolder {
 public:
  // Creates `path` (and its missing parents) with mode 0700 and locks it.
  // FAILED_PRECONDITION: another process holds the lock (the message has its
  // pid), `path` is not a folder, or it cannot be created or written.
  static absl::StatusOr<StateFolder> Open(const std::string& path);

  StateFolder(StateFolder&& other) noexcept;
  StateFolder& operator=(StateFolder&& other) noexcept;
  ~StateFolder();

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  StateFolder(std::string path, int lock)
      : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_STATE_FOLDER_H_
