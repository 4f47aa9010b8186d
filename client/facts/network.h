// The network part of the facts: interfaces, their addresses, default routes.
// Reads the kernel's own view of this network namespace; sends nothing.
#ifndef ROLLCALL_CLIENT_FACTS_NETWORK_H_
#define ROLLCALL_CLIENT_FACTS_NETWORK_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Appends every interface with all of its IPv4 and IPv6 addresses, in the
// kernel's order. At most `interfaces_max`; those with addresses come first in
// where that is too few.
void GatherNetwork(v1::Facts& facts, size_t interfaces_max = 256);

// Interfaces that a default route leaves by, from the text of /proc/net/route
// and /proc/net/ipv6_route. Lines that make no sense are passed over. Pure.
std::set<std::string> DefaultRouteInterfaces(absl::string_view route,
                                             absl::string_view ipv6_route);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_NETWORK_H_
