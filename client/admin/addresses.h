// Addresses: endpoints as texts, and where this machine reaches a daemon of its
// own. Where others reach it: JoinEndpoints of daemon/core.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_ADDRESSES_H_
#define ROLLCALL_CLIENT_ADMIN_ADDRESSES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

struct HostPort {
  std::string host;  // Without brackets.
  int port = 0;
};

// HOST:PORT, [V6]:PORT. INVALID_ARGUMENT: neither, or a port out of 0..65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// HOST:PORT with brackets where the host is IPv6.
std::string FormatHostPort(const HostPort& endpoint);

// Where this machine itself reaches it.
std::string LocalEndpoint(const HostPort& listen, int port);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_ADDRESSES_H_
