// AttachSocket: the path of a Unix socket to which ranks attach that the agent
// does not start (join --attach --socket PATH). One agent at a time holds the
// path.
//
// A lock on a file beside the socket (PATH.lock) shows that the agent runs. The
// kernel releases the lock when the agent ends in any way, also if the folder
// is shared with other containers. The lock file is not removed, because
// another agent could be about to lock it.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_ATTACH_SOCKET_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_ATTACH_SOCKET_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {

class AttachSocket {
 public:
  // Takes the path, and removes the socket of an agent that has died. A missing
  // folder is made (mode 0700; 0710 with the group of `user`); its parent must
  // exist. `user`: the user as which ranks run; null: this process's user.
  // INVALID_ARGUMENT: no socket can have this path. FAILED_PRECONDITION: an
  // agent listens there, something else is at the path, or others may replace
  // files in the folder. Each message names the path and what to do.
  static absl::StatusOr<std::unique_ptr<AttachSocket>> Take(
      const std::string& path, const SystemUser* user);

  // Removes the socket. Call it when no process listens on the socket any more.
  ~AttachSocket();
  AttachSocket(const AttachSocket&) = delete;
  AttachSocket& operator=(const AttachSocket&) = delete;

  const std::string& path() const { return path_; }

 private:
  AttachSocket(std::string path, Fd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const Fd lock_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_ATTACH_SOCKET_H_
