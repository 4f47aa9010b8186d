#include "daemon/core/network_plan/plan_node.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// The subnet's family, prefix length and bytes as one comparable value.
std::string Subnet(const std::string& bytes, uint32_t prefix_length) {
  std::string network = bytes;
  for (size_t i = 0; i < network.size(); ++i) {
    const int bits = static_cast<int>(prefix_length) - static_cast<int>(8 * i);
    if (bits >= 8) continue;
    const int keep = bits <= 0 ? 0 : 0xff & (0xff << (8 - bits));
    network[i] = static_cast<char>(network[i] & keep);
  }
  return absl::StrCat(bytes.size(), "/", prefix_length, "/", network);
}

}  // namespace

bool IsLocalBridge(std::string_view interface) {
  // Docker's own networks. The names br-ex (OpenStack) and br-lan (OpenWrt) do
  // not match.
  if (interface.starts_with("br-") && interface.size() == 15 &&
      interface.find_first_not_of("0123456789abcdef", 3) ==
          std::string_view::npos) {
    return true;
  }
  for (const std::string_view prefix :
       {"docker", "virbr", "cni", "veth", "flannel", "cali", "podman", "lxc",
        "lxdbr", "kube-", "cilium"}) {
    if (interface.starts_with(prefix)) return true;
  }
  return false;
}

bool IsUnusable(std::string_view address) {
  const std::optional<std::string> bytes = AddressBytes(address);
  if (!bytes) return true;
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>((*bytes)[i]);
  };
  if (bytes->size() == 4) {
    return byte(0) == 0 || byte(0) == 127 || byte(0) >= 224 ||
           (byte(0) == 169 && byte(1) == 254);
  }
  // IPv4-mapped and IPv4-compatible addresses, loopback and the unspecified
  // address: peers cannot reach an interface by these.
  static const std::string kZeros(10, '\0');
  const bool mapped =
      bytes->starts_with(kZeros) && ((byte(10) == 0 && byte(11) == 0) ||
                                     (byte(10) == 0xff && byte(11) == 0xff));
  return mapped || byte(0) == 0xff ||
         (byte(0) == 0xfe && (byte(1) & 0xc0) == 0x80);
}

std::optional<std::string> AddressBytes(std::string_view text) {
  const std::string copy(text);
  std::array<char, 16> bytes;
  if (inet_pton(AF_INET, copy.c_str(), bytes.data()) == 1) {
    return std::string(bytes.data(), 4);
  }
  if (inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) {
    return std::string(bytes.data(), 16);
  }
  return std::nullopt;
}

bool HasInterfaceAt(const PlanNode& node, std::string_view address) {
  const std::optional<std::string> bytes = AddressBytes(address);
  if (!bytes) return false;
  for (const v1::Interface& interface : node.facts->interfaces()) {
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      if (AddressBytes(a.address()) == bytes) return true;
    }
  }
  return false;
}

std::vector<UsableAddress> UsableAddresses(const PlanNode& node) {
  std::vector<UsableAddress> usable;
  for (const v1::Interface& interface : node.facts->interfaces()) {
    if (!interface.up() || interface.loopback()) continue;
    // An interface with the name of a bridge is not usable, unless the node
    // itself reaches others through it.
    const bool used =
        interface.default_route() ||
        std::any_of(interface.addresses().begin(), interface.addresses().end(),
                    [&](const v1::InterfaceAddress& a) {
                      return a.address() == node.observed_address;
                    });
    if (!used && IsLocalBridge(interface.name())) continue;
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      const std::optional<std::string> bytes = AddressBytes(a.address());
      if (!bytes || IsUnusable(a.address())) continue;
      usable.push_back({a.address(), interface.name(),
                        Subnet(*bytes, a.prefix_length()), bytes->size() == 4,
                        interface.default_route()});
    }
  }
  // The platform may name an address that no interface has (1:1 NAT).
  const std::string& advertised = node.facts->advertised_address();
  const bool known = std::any_of(
      usable.begin(), usable.end(),
      [&](const UsableAddress& u) { return u.address == advertised; });
  if (!advertised.empty() && !known && !IsUnusable(advertised)) {
    usable.push_back(
        {advertised, "", "", advertised.find(':') == std::string::npos, false});
  }
  return usable;
}

std::vector<std::string> CandidateAddresses(const PlanNode& node) {
  std::vector<UsableAddress> usable = UsableAddresses(node);
  const auto rank = [&](const UsableAddress& u) {
    return std::make_tuple(
        u.address != node.facts->advertised_address(),
        AddressBytes(u.address) != AddressBytes(node.observed_address),
        !u.default_route, !u.ipv4);
  };
  std::stable_sort(usable.begin(), usable.end(),
                   [&](const UsableAddress& a, const UsableAddress& b) {
                     return rank(a) < rank(b);
                   });
  std::vector<std::string> addresses;
  for (UsableAddress& u : usable) addresses.push_back(std::move(u.address));
  return addresses;
}

bool IsReached(const ProbeReport& report, const std::string& address) {
  const auto at = report.found.find(address);
  return at != report.found.end() && at->second.reached;
}

}  // namespace rollcall
