#include "client/facts/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system.h"

namespace rollcall {
namespace {

// From linux/route.h and linux/ipv6_route.h, which do not mix with net/if.h.
constexpr uint32_t kRouteUp = 0x1;
constexpr uint32_t kRouteReject = 0x200;
// How much of the route tables is read: a router's may be large, and the
// default route stands first in the one and is found among few in the other.
constexpr size_t kRouteTextBytesMax = 1 << 20;

bool IsZeros(absl::string_view text) {
  return !text.empty() &&
         text.find_first_not_of('0') == absl::string_view::npos;
}

uint32_t Hex(absl::string_view text) {
  uint32_t value = 0;
  return absl::SimpleHexAtoi(text, &value) ? value : 0;
}

// The destination's text form and its prefix length; false: no IP address.
bool ReadAddress(const ifaddrs& entry, v1::InterfaceAddress& out) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* address = nullptr;
  const unsigned char* mask = nullptr;
  size_t bytes = 0;
  if (entry.ifa_addr->sa_family == AF_INET) {
    address = &reinterpret_cast<sockaddr_in*>(entry.ifa_addr)->sin_addr;
    if (entry.ifa_netmask != nullptr) {
      mask = reinterpret_cast<unsigned char*>(
          &reinterpret_cast<sockaddr_in*>(entry.ifa_netmask)->sin_addr);
    }
    bytes = 4;
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    address = &reinterpret_cast<sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    if (entry.ifa_netmask != nullptr) {
      mask = reinterpret_cast<unsigned char*>(
          &reinterpret_cast<sockaddr_in6*>(entry.ifa_netmask)->sin6_addr);
    }
    bytes = 16;
  } else {
    return false;
  }
  if (inet_ntop(entry.ifa_addr->sa_family, address, text, sizeof(text)) ==
      nullptr) {
    return false;
  }
  uint32_t prefix = mask == nullptr ? bytes * 8 : 0;
  for (size_t i = 0; mask != nullptr && i < bytes; ++i) {
    prefix += std::popcount(mask[i]);
  }
  out.set_address(text);
  out.set_prefix_length(prefix);
  return true;
}

// Asks a driver by ioctl: sysfs may be mounted for another network namespace.
class Device {
 public:
  Device(int socket, const std::string& name) : socket_(socket), name_(name) {}

  uint32_t Mtu() {
    ifreq request = Request();
    if (ioctl(socket_, SIOCGIFMTU, &request) != 0) return 0;
    return static_cast<uint32_t>(std::max(0, request.ifr_mtu));
  }

  uint32_t SpeedMbps() {
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    if (!Ethtool(&command)) return 0;
    const uint32_t speed = ethtool_cmd_speed(&command);
    // 0xffff is what older drivers say for "unknown".
    return speed == UINT32_MAX || speed == UINT16_MAX ? 0 : speed;
  }

  std::string Driver() {
    ethtool_drvinfo information{};
    information.cmd = ETHTOOL_GDRVINFO;
    if (!Ethtool(&information)) return "";
    information.driver[sizeof(information.driver) - 1] = '\0';
    return information.driver;
  }

 private:
  ifreq Request() const {
    ifreq request{};
    name_.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
    return request;
  }

  bool Ethtool(void* command) {
    ifreq request = Request();
    request.ifr_data = static_cast<char*>(command);
    return ioctl(socket_, SIOCETHTOOL, &request) == 0;
  }

  const int socket_;
  const std::string name_;
};

// DEVTYPE of the uevent file, or the driver of links that have none and are
// no hardware either.
std::string DeviceType(Device& device, const std::string& name) {
  const std::string folder = absl::StrCat("/sys/class/net/", name);
  uint32_t index = 0;
  if (absl::SimpleAtoi(ReadSmallFile(folder + "/ifindex", 32), &index) &&
      index == if_nametoindex(name.c_str())) {
    const std::string uevent = ReadSmallFile(folder + "/uevent", 4096);
    for (absl::string_view line : absl::StrSplit(uevent, '\n')) {
      if (absl::ConsumePrefix(&line, "DEVTYPE=")) return std::string(line);
    }
  }
  const std::string driver = device.Driver();
  for (const char* kind : {"veth", "tun", "bridge", "dummy", "vxlan", "macvlan",
                           "ipvlan", "openvswitch"}) {
    if (driver == kind) return driver;
  }
  if (driver == "bonding") return "bond";
  if (absl::StartsWith(driver, "802.1Q")) return "vlan";
  return "";
}

void Describe(v1::Interface& interface, int socket,
              const std::set<std::string>& default_routes) {
  interface.set_default_route(default_routes.contains(interface.name()));
  if (socket < 0) return;
  Device device(socket, interface.name());
  interface.set_mtu(device.Mtu());
  if (interface.loopback()) return;
  interface.set_speed_mbps(device.SpeedMbps());
  interface.set_device_type(DeviceType(device, interface.name()));
}

// Interfaces with their addresses and flags, in the kernel's order.
std::vector<v1::Interface> ListInterfaces() {
  std::vector<v1::Interface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  std::map<std::string, size_t> place;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_name == nullptr) continue;
    // An IPv4 alias (eth0:1) is an address of its interface.
    const std::string name(
        absl::string_view(entry->ifa_name)
            .substr(0, absl::string_view(entry->ifa_name).find(':')));
    const auto [at, is_new] = place.emplace(name, interfaces.size());
    if (is_new) interfaces.emplace_back();
    v1::Interface& interface = interfaces[at->second];
    interface.set_name(name);
    interface.set_up((entry->ifa_flags & IFF_UP) != 0);
    interface.set_running((entry->ifa_flags & IFF_RUNNING) != 0);
    interface.set_loopback((entry->ifa_flags & IFF_LOOPBACK) != 0);
    v1::InterfaceAddress address;
    if (entry->ifa_addr != nullptr && ReadAddress(*entry, address)) {
      *interface.add_addresses() = std::move(address);
    }
  }
  freeifaddrs(list);
  return interfaces;
}

}  // namespace

std::set<std::string> DefaultRouteInterfaces(absl::string_view route,
                                             absl::string_view ipv6_route) {
  std::set<std::string> names;
  const auto blanks = absl::ByAnyChar(" \t");
  for (absl::string_view line : absl::StrSplit(route, '\n')) {
    const std::vector<absl::string_view> f =
        absl::StrSplit(line, blanks, absl::SkipEmpty());
    // Iface Destination Gateway Flags RefCnt Use Metric Mask ...
    if (f.size() < 8 || !IsZeros(f[1]) || !IsZeros(f[7])) continue;
    const uint32_t flags = Hex(f[3]);
    if ((flags & kRouteUp) == 0 || (flags & kRouteReject) != 0) continue;
    names.emplace(f[0]);
  }
  for (absl::string_view line : absl::StrSplit(ipv6_route, '\n')) {
    const std::vector<absl::string_view> f =
        absl::StrSplit(line, blanks, absl::SkipEmpty());
    // destination length source length next-hop metric refs use flags device
    if (f.size() < 10 || !IsZeros(f[0]) || !IsZeros(f[1])) continue;
    const uint32_t flags = Hex(f[8]);
    if ((flags & kRouteUp) == 0 || (flags & kRouteReject) != 0) continue;
    names.emplace(f[9]);
  }
  names.erase("lo");
  return names;
}

void GatherNetwork(v1::Facts& facts, size_t interfaces_max) {
  std::vector<v1::Interface> interfaces = ListInterfaces();
  if (interfaces.size() > interfaces_max) {
    std::stable_partition(
        interfaces.begin(), interfaces.end(),
        [](const v1::Interface& i) { return i.addresses_size() > 0; });
    interfaces.resize(interfaces_max);
  }
  const std::set<std::string> default_routes = DefaultRouteInterfaces(
      ReadSmallFile("/proc/net/route", kRouteTextBytesMax),
      ReadSmallFile("/proc/net/ipv6_route", kRouteTextBytesMax));
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (v1::Interface& interface : interfaces) {
    Describe(interface, socket, default_routes);
    *facts.add_interfaces() = std::move(interface);
  }
  if (socket >= 0) close(socket);
}

}  // namespace rollcall
