// The network part of the facts: interfaces, their addresses, default routes.
//
// It asks the kernel about this network namespace over rtnetlink, and drivers
// about the link speed over ethtool. It reads no file, and sends nothing to any
// network.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_NETWORK_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_NETWORK_H_

#include <set>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/facts/system/netlink.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Appends all interfaces with all their IPv4 and IPv6 addresses, in the
// kernel's order. At most `interfaces_max`; if there are more, those with
// addresses are preferred. Values that the kernel does not report are added to
// `missing`. Takes about a millisecond; longer while a driver is being reset.
void GatherNetwork(v1::Facts& facts,
                   size_t interfaces_max = Limits::interfaces_per_node_max);

// Does the same from dumped tables, without speeds. An interface whose name a
// Hello may not carry is left out, and is added to `missing`. A dump during a
// change may have two interfaces with the same name; the first one counts.
// Pure.
void AddInterfaces(const std::vector<NetworkLink>& links,
                   const std::vector<NetworkAddress>& addresses,
                   const std::set<int>& default_routes, size_t interfaces_max,
                   v1::Facts& facts);

// Whether a Hello may carry the name (daemon/core/admission/admission.h). Pure.
bool IsInterfaceName(absl::string_view name);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_NETWORK_H_
