#include "daemon/base/processes/service_notifier.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

std::string TakeVariable(const char* name) {
  const char* const value = getenv(name);
  const std::string taken = value == nullptr ? "" : value;
  unsetenv(name);
  return taken;
}

}  // namespace

absl::StatusOr<ServiceNotifier> ServiceNotifier::FromEnvironment() {
  const std::string path = TakeVariable("NOTIFY_SOCKET");
  const std::string watchdog = TakeVariable("WATCHDOG_USEC");
  const std::string watched = TakeVariable("WATCHDOG_PID");
  ServiceNotifier notifier;
  if (path.empty()) return notifier;
  sockaddr_un& address = notifier.address_;
  // A name that begins with @ is abstract: its address begins with a zero byte.
  // Only a path needs a zero byte at its end.
  const bool abstract = path[0] == '@';
  if ((path[0] != '/' && !abstract) ||
      path.size() + !abstract > sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NOTIFY_SOCKET: expected a path or @NAME of at most ",
        sizeof(address.sun_path) - 1, " bytes, got '", Printable(path, 128),
        "'; unset it to start without a service manager"));
  }
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  if (abstract) address.sun_path[0] = '\0';
  notifier.address_bytes_ = static_cast<socklen_t>(
      offsetof(sockaddr_un, sun_path) + path.size() + !abstract);
  notifier.socket_ = Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int64_t pid = 0;
  notifier.has_watchdog_ =
      !watchdog.empty() &&
      (watched.empty() || (absl::SimpleAtoi(watched, &pid) && pid == getpid()));
  return notifier;
}

void ServiceNotifier::Tell(absl::string_view lines) const {
  if (address_bytes_ == 0) return;
  sendto(socket_.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
         reinterpret_cast<const sockaddr*>(&address_), address_bytes_);
}

}  // namespace rollcall
