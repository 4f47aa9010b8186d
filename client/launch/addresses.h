// Addresses: under which endpoints a daemon on this machine can be reached.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_ADDRESSES_H_
#define ROLLCALL_CLIENT_LAUNCH_ADDRESSES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct HostPort {
  std::string host;  // Without brackets.
  int port = 0;
};

// HOST:PORT, [V6]:PORT. INVALID_ARGUMENT: neither, or a port out of 0..65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// HOST:PORT with brackets where the host is IPv6.
std::string FormatHostPort(const HostPort& endpoint);

// Where others reach a daemon that listens on `listen` with `port`: for a
// wildcard all addresses of this machine that are worth trying, those of the
// default route's interface first, and 127.0.0.1 last; otherwise that address.
std::vector<std::string> JoinEndpoints(const HostPort& listen, int port,
                                       const v1::Facts& facts);

// Where this machine itself reaches it.
std::string LocalEndpoint(const HostPort& listen, int port);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_ADDRESSES_H_
