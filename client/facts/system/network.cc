#include "client/facts/system/network.h"

#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "client/facts/system/missing.h"

namespace rollcall {
namespace {

constexpr int kTries = 3;

// Repeats the dump if the tables change during it. `clear` removes the results
// of an earlier try.
template <typename Parse, typename Clear>
absl::Status DumpWhole(uint16_t type, Parse parse, Clear clear) {
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    clear();
    status = DumpNetlink(type, AF_UNSPEC, parse);
    if (!absl::IsAborted(status)) break;
  }
  return status;
}

// Megabits per second; 0: unknown.
uint32_t SpeedMbps(int socket, const std::string& name) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  name.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t speed = ethtool_cmd_speed(&command);
  // Older drivers report 0xffff for "unknown".
  return speed == UINT32_MAX || speed == UINT16_MAX ? 0 : speed;
}

}  // namespace

bool IsInterfaceName(absl::string_view name) {
  return !name.empty() && name.size() < IFNAMSIZ &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isgraph(c) && c != '/' && c != ',';
         });
}

void AddInterfaces(const std::vector<NetworkLink>& links,
                   const std::vector<NetworkAddress>& addresses,
                   const std::set<int>& default_routes, size_t interfaces_max,
                   v1::Facts& facts) {
  std::map<int, std::string> names;
  for (const NetworkLink& link : links) names.emplace(link.index, link.name);
  std::multimap<int, const v1::InterfaceAddress*> of_link;
  for (const NetworkAddress& address : addresses) {
    of_link.emplace(address.link, &address.address);
  }
  std::vector<v1::Interface> interfaces;
  std::set<std::string> told;
  for (const NetworkLink& link : links) {
    if (!IsInterfaceName(link.name)) {
      AddMissing(facts, "interfaces.name",
                 "an interface's name has bytes that are not printable ASCII",
                 "rename it with `ip link set ... name ...`");
      continue;
    }
    if (!told.insert(link.name).second) continue;
    v1::Interface interface;
    interface.set_name(link.name);
    interface.set_mtu(link.mtu);
    interface.set_up((link.flags & IFF_UP) != 0);
    interface.set_running((link.flags & IFF_RUNNING) != 0);
    interface.set_loopback((link.flags & IFF_LOOPBACK) != 0);
    interface.set_default_route(!interface.loopback() &&
                                default_routes.contains(link.index));
    interface.set_device_type(PlainText(DeviceType(link)));
    if (const auto at = names.find(link.master);
        at != names.end() && IsInterfaceName(at->second)) {
      interface.set_master(at->second);
    }
    const auto [begin, end] = of_link.equal_range(link.index);
    for (auto at = begin; at != end; ++at) {
      *interface.add_addresses() = *at->second;
    }
    interfaces.push_back(std::move(interface));
  }
  if (interfaces.size() > interfaces_max) {
    std::stable_partition(
        interfaces.begin(), interfaces.end(),
        [](const v1::Interface& i) { return i.addresses_size() > 0; });
    interfaces.resize(interfaces_max);
  }
  for (v1::Interface& interface : interfaces) {
    *facts.add_interfaces() = std::move(interface);
  }
}

void GatherNetwork(v1::Facts& facts, size_t interfaces_max) {
  std::vector<NetworkLink> links;
  std::vector<NetworkAddress> addresses;
  std::set<int> default_routes;
  const absl::Status linked = DumpWhole(
      RTM_GETLINK,
      [&](absl::string_view bytes) { return ParseLinks(bytes, links); },
      [&] { links.clear(); });
  const absl::Status addressed = DumpWhole(
      RTM_GETADDR,
      [&](absl::string_view bytes) { return ParseAddresses(bytes, addresses); },
      [&] { addresses.clear(); });
  const absl::Status routed = DumpWhole(
      RTM_GETROUTE,
      [&](absl::string_view bytes) {
        return ParseDefaultRoutes(bytes, default_routes);
      },
      [&] { default_routes.clear(); });
  for (const auto& [status, fact] :
       {std::pair(&linked, "interfaces"),
        std::pair(&addressed, "interfaces.addresses"),
        std::pair(&routed, "interfaces.default_route")}) {
    if (!status->ok()) AddMissing(facts, fact, status->message(), "");
  }
  AddInterfaces(links, addresses, default_routes, interfaces_max, facts);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return AddMissing(facts, "interfaces.speed_mbps", std::strerror(errno), "");
  }
  for (v1::Interface& interface : *facts.mutable_interfaces()) {
    if (interface.loopback()) continue;
    interface.set_speed_mbps(SpeedMbps(socket, interface.name()));
  }
  close(socket);
}

}  // namespace rollcall
