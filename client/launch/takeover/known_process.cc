#include "client/launch/takeover/known_process.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/base/processes/proc_stat.h"

namespace rollcall {

ProcessId IdOf(pid_t pid) {
  const uint64_t start_ticks = StartTicks(pid);
  return start_ticks == 0 ? ProcessId{} : ProcessId{pid, start_ticks};
}

bool IsStopped(pid_t pid) {
  const auto stat = ReadProcStat(pid);
  return stat.has_value() && stat->state == 'T';
}

absl::StatusOr<KnownProcess> KnownProcess::Find(const ProcessId& id) {
  const auto gone = [&] {
    return absl::NotFoundError(absl::StrCat("process ", id.pid, " has ended"));
  };
  if (id.pid <= 0 || id.start_ticks == 0) return gone();
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0)));
  const int error = errno;
  // Checked while the pidfd is open, because from then on it names the same
  // process.
  if (StartTicks(id.pid) != id.start_ticks) return gone();
  if (!fd.open() && error == ESRCH) return gone();
  if (!fd.open()) {
    return absl::UnavailableError(absl::StrCat(
        "process ", id.pid,
        " of an earlier launcher cannot be watched: ", strerror(error),
        error == ENOSYS ? "; that takes Linux 5.3" : "; look at `ulimit -n`"));
  }
  KnownProcess process(id, std::move(fd));
  if (process.Ended()) return gone();
  return process;
}

bool KnownProcess::Ended() const {
  pollfd polled{fd_.get(), POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

void KnownProcess::Kill(int signal) const {
  syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0);
}

}  // namespace rollcall
