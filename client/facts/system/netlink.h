// Links, addresses and routes of the kernel, over rtnetlink.
//
// The three parsers are pure functions over the bytes of a dump (rtnetlink(7),
// netlink(7)). If the length of a message or an attribute exceeds the remaining
// bytes, its list ends there, and the entries before it are kept. DumpNetlink
// asks the kernel; nothing is sent to any network.
//
// Any thread.
#ifndef ROLLCALL_CLIENT_FACTS_SYSTEM_NETLINK_H_
#define ROLLCALL_CLIENT_FACTS_SYSTEM_NETLINK_H_

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
  // IFLA_INFO_KIND; empty: not a virtual link.
  std::string kind;
  // Index of the bridge or bond whose port this interface is; 0: none.
  int master = 0;
};

// One address (RTM_NEWADDR).
struct NetworkAddress {
  int link = 0;
  v1::InterfaceAddress address;
};

// The state after one part of a dump. The caller combines the parts.
struct NetlinkEnd {
  // NLMSG_DONE has come.
  bool done = false;
  // The tables changed during the dump (NLM_F_DUMP_INTR): repeat the dump.
  bool interrupted = false;
  // The errno of NLMSG_ERROR or NLMSG_DONE; 0: none.
  int error = 0;
};

// These append the entries in `bytes`, which are whole messages, as recv(2)
// returns them.
NetlinkEnd ParseLinks(absl::string_view bytes, std::vector<NetworkLink>& links);
// The interfaces that were removed (RTM_DELLINK).
NetlinkEnd ParseGoneLinks(absl::string_view bytes,
                          std::vector<NetworkLink>& links);
// Leaves out addresses that another machine has (duplicate address detection).
NetlinkEnd ParseAddresses(absl::string_view bytes,
                          std::vector<NetworkAddress>& addresses);
// The indexes of the interfaces of the default routes in the tables `main` and
// `default`. Reject routes and dead next hops do not count.
NetlinkEnd ParseDefaultRoutes(absl::string_view bytes, std::set<int>& links);

// The device type for the facts: the kernel's kind, or "ipoib" for the parent
// interface of an InfiniBand port, which has no kind. Pure.
std::string DeviceType(const NetworkLink& link);

// Requests a dump (RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE) of `family` and
// calls `parse` with each part. ABORTED: the table changed during the dump;
// repeat the call. DATA_LOSS: the dump is too large; the parsed entries are
// valid. UNAVAILABLE: the kernel refused, or did not answer within a second.
absl::Status DumpNetlink(
    uint16_t type, unsigned char family,
    const std::function<NetlinkEnd(absl::string_view)>& parse);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_SYSTEM_NETLINK_H_
