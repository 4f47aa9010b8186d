// Addresses: endpoints as text, and the address at which this machine reaches
// its own daemon. JoinEndpoints (daemon/core/network_plan) has the addresses at
// which other machines reach it.
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

// HOST:PORT or [V6]:PORT. INVALID_ARGUMENT: neither, or a port outside
// 0..65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// HOST:PORT; an IPv6 host gets brackets.
std::string FormatHostPort(const HostPort& endpoint);

// The address at which this machine reaches its own daemon.
std::string LocalEndpoint(const HostPort& listen, int port);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_ADDRESSES_H_
