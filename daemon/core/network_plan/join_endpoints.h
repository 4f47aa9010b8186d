// Join endpoints: the addresses at which others may reach a daemon, for the
// join strings of a launcher and of rollcalld.
//
// Pure; any thread. It does not test the addresses: an agent dials all in turn.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_JOIN_ENDPOINTS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_JOIN_ENDPOINTS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/repeated_field.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A join string with more endpoints does not fit on one line of a terminal.
inline constexpr size_t kJoinEndpointsMax = 8;

// Whether a server that listens on `host` (without brackets) listens on all
// addresses.
bool IsWildcard(std::string_view host);

// HOST:PORT of a daemon that listens on `host` (without brackets) and `port`.
// If `host` is a wildcard: the addresses of this machine's interfaces that are
// up, at most kJoinEndpointsMax. Addresses of the default route's interface
// come first, IPv4 before IPv6. No IPv6 address if `host` is 0.0.0.0. Addresses
// of bridges inside the machine are used only if there are no others, and
// 127.0.0.1 only if there are none at all, because on another machine both
// would lead to another daemon.
std::vector<std::string> JoinEndpoints(
    const std::string& host, int port,
    const google::protobuf::RepeatedPtrField<v1::Interface>& interfaces);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_JOIN_ENDPOINTS_H_
