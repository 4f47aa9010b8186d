// ServiceNotifier: tells systemd that this service is ready, alive or stopping,
// by the datagrams of sd_notify(3). Without systemd it does nothing.
//
// Thread rule: any thread after FromEnvironment.
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_SERVICE_NOTIFIER_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_SERVICE_NOTIFIER_H_

#include <sys/un.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

class ServiceNotifier {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from
  // the environment; no other thread may use the environment meanwhile.
  // INVALID_ARGUMENT: NOTIFY_SOCKET is neither a path nor an abstract name that
  // fits into an address.
  static absl::StatusOr<ServiceNotifier> FromEnvironment();

  // Sends lines such as "READY=1\nSTATUS=listening". Does not block, and
  // ignores a service manager that has gone.
  void Tell(absl::string_view lines) const;

  // Whether the unit has WatchdogSec=: the service is killed unless it sends
  // "WATCHDOG=1" at least that often.
  bool has_watchdog() const { return has_watchdog_; }

 private:
  ServiceNotifier() = default;

  Fd socket_;  // Closed: there is no service manager.
  sockaddr_un address_ = {};
  socklen_t address_bytes_ = 0;
  bool has_watchdog_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_SERVICE_NOTIFIER_H_
