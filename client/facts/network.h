// The network part of the facts: interfaces, their addresses, default routes.
//
// Asks the kernel of this network namespace by rtnetlink, and drivers for their
// speed by ethtool; reads no file, and sends nothing to any network.
#ifndef ROLLCALL_CLIENT_FACTS_NETWORK_H_
#define ROLLCALL_CLIENT_FACTS_NETWORK_H_

#include <set>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/facts/netlink.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Appends every interface with all of its IPv4 and IPv6 addresses, in the
// kernel's order. At most `interfaces_max`; where that is too few, those with
// addresses come first. What the kernel does not tell goes into `missing`.
// About a millisecond; for as long as a driver needs that is being reset.
void GatherNetwork(v1::Facts& facts,
                   size_t interfaces_max = Limits::interfaces_per_node_max);

// The same of what was dumped; without speeds. An interface whose name no
// Hello may carry is left out, and goes into `missing`; of two that have one
// name, as a dump that was disturbed may have them, the first counts. Pure.
void AddInterfaces(const std::vector<NetworkLink>& links,
                   const std::vector<NetworkAddress>& addresses,
                   const std::set<int>& default_routes, size_t interfaces_max,
                   v1::Facts& facts);

// Whether a Hello may carry the name (daemon/core/admission.h). Pure.
bool IsInterfaceName(absl::string_view name);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_NETWORK_H_
