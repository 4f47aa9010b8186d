// What the kernel says of links, addresses and routes over rtnetlink.
//
// The three parsers are pure functions over the bytes of a dump (rtnetlink(7),
// netlink(7)): a message or an attribute that claims more bytes than there are
// ends its list, and what came before it counts. DumpNetlink asks the kernel;
// nothing is sent to any network.
//
// Any thread.
#ifndef ROLLCALL_CLIENT_FACTS_NETLINK_H_
#define ROLLCALL_CLIENT_FACTS_NETLINK_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// One interface (RTM_NEWLINK).
struct NetworkLink {
  int index = 0;
  std::string name;
  // IFF_* of linux/if.h.
  uint32_t flags = 0;
  uint32_t mtu = 0;
  // ARPHRD_* of linux/if_arp.h.
  uint16_t hardware = 0;
  // IFLA_INFO_KIND; empty: no virtual link.
  std::string kind;
  // Index of the bridge or bond that it is a port of; 0: none.
  int master = 0;
};

// One address (RTM_NEWADDR).
struct NetworkAddress {
  int link = 0;
  v1::InterfaceAddress address;
};

// What a dump of one kind said. A caller adds the parts of a dump up.
struct NetlinkEnd {
  // NLMSG_DONE has come.
  bool done = false;
  // The tables changed meanwhile (NLM_F_DUMP_INTR): ask again.
  bool interrupted = false;
  // Of NLMSG_ERROR or NLMSG_DONE; 0: none.
  int error = 0;
};

// Append what `bytes`, whole messages as recv(2) returned them, say.
NetlinkEnd ParseLinks(absl::string_view bytes, std::vector<NetworkLink>& links);
// Addresses that another machine holds (duplicate address detection) are left
// out.
NetlinkEnd ParseAddresses(absl::string_view bytes,
                          std::vector<NetworkAddress>& addresses);
// Indexes of the interfaces that default routes of the tables main and default
// leave by. Routes that reject, and dead next hops, do not count.
NetlinkEnd ParseDefaultRoutes(absl::string_view bytes, std::set<int>& links);

// The kind as the facts have it: the kernel's, and "ipoib" for the parent
// interface of an InfiniBand port, which has none. Pure.
std::string DeviceType(const NetworkLink& link);

// Asks for a dump (RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE) of `family` and
// hands its parts to `parse`, to the end. ABORTED: the table changed meanwhile;
// ask again. DATA_LOSS: it is larger than is read; what was parsed counts.
// UNAVAILABLE: the kernel refused, or did not answer within a second.
absl::Status DumpNetlink(
    uint16_t type, unsigned char family,
    const std::function<NetlinkEnd(absl::string_view)>& parse);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_NETLINK_H_
