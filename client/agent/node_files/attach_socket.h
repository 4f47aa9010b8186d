// AttachSocket: the path of the Unix socket to which ranks attach that the
// agent does not start (join --attach --socket PATH), held by one agent at a
// time.
//
// A lock file beside the socket (PATH.lock) says whether its agent lives: the
// kernel releases the lock however the agent ends, also across containers that
// share the folder. The lock file stays; removing it would be a race.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_ATTACH_SOCKET_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_ATTACH_SOCKET_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"
#include "daemon/base/system_user.h"

namespace rollcall {

class AttachSocket {
 public:
  // Takes the path, and removes the socket of an agent that has died. A missing
  // folder is made (0700; 0710 with the group of `user`, as whom ranks run;
  // null: this process's user); its parent must exist.
  // INVALID_ARGUMENT: a path that no socket can have. FAILED_PRECONDITION: a
  // living agent listens there, something else is at the path, or others may
  // replace files in the folder. Each names the path and what to do.
  static absl::StatusOr<std::unique_ptr<AttachSocket>> Take(
      const std::string& path, const SystemUser* user);

  // Removes the socket. Call it when nothing listens on it any more.
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
