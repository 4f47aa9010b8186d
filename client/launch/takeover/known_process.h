// KnownProcess: one process, not necessarily our child, that is watched and
// signalled through a pidfd.
//
// A pid alone is not trusted, because it is reused. Pid and start time together
// name one process of this boot.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_CLIENT_LAUNCH_TAKEOVER_KNOWN_PROCESS_H_
#define ROLLCALL_CLIENT_LAUNCH_TAKEOVER_KNOWN_PROCESS_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

struct ProcessId {
  pid_t pid = 0;
  // Ticks since boot.
  uint64_t start_ticks = 0;
};

// The id of a process that runs or is not reaped yet; {}: there is none.
ProcessId IdOf(pid_t pid);

// Whether a signal has stopped it (Ctrl-Z, SIGSTOP). False: no, or unknown.
bool IsStopped(pid_t pid);

class KnownProcess {
 public:
  // NOT_FOUND: it has ended. UNAVAILABLE: it cannot be watched; the message has
  // the system's error and what to do.
  static absl::StatusOr<KnownProcess> Find(const ProcessId& id);

  pid_t pid() const { return id_.pid; }
  const ProcessId& id() const { return id_; }
  // Readable once it has ended.
  int fd() const { return fd_.get(); }
  bool Ended() const;
  // No effect if it has ended.
  void Kill(int signal) const;

 private:
  KnownProcess(const ProcessId& id, Fd fd) : id_(id), fd_(std::move(fd)) {}
  ProcessId id_;
  Fd fd_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_TAKEOVER_KNOWN_PROCESS_H_
