#include "daemon/core/network_plan.h"

#include <arpa/inet.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

// An address as bytes: 4 or 16 of them.
std::optional<std::string> Bytes(std::string_view text) {
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

// The subnet's bytes, family and prefix length in one comparable value.
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

struct Usable {
  std::string address;
  std::string interface;
  std::string subnet;
  bool ipv4;
};

std::string Place(const v1::Facts& facts) {
  return absl::StrCat(facts.boot_id(), "/", facts.network_namespace());
}

// Addresses that nodes in different places claim: none of them is to be used.
std::set<std::string> Disputed(const std::vector<PlanNode>& nodes) {
  std::map<std::string, std::string> claimed;
  std::set<std::string> disputed;
  for (const PlanNode& node : nodes) {
    for (const v1::Interface& interface : node.facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        const auto [at, fresh] =
            claimed.emplace(a.address(), Place(*node.facts));
        if (!fresh && at->second != Place(*node.facts)) {
          disputed.insert(a.address());
        }
      }
    }
  }
  return disputed;
}

std::vector<Usable> UsableAddresses(const PlanNode& node,
                                    const std::set<std::string>& disputed) {
  std::vector<Usable> usable;
  for (const v1::Interface& interface : node.facts->interfaces()) {
    if (!interface.up() || interface.loopback()) continue;
    if (IsLocalBridge(interface.name())) continue;
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      const std::optional<std::string> bytes = Bytes(a.address());
      if (!bytes || IsUnusable(a.address())) continue;
      if (disputed.contains(a.address())) continue;
      usable.push_back({a.address(), interface.name(),
                        Subnet(*bytes, a.prefix_length()), bytes->size() == 4});
    }
  }
  return usable;
}

// Subnets that every node has an address in.
std::set<std::string> SharedSubnets(
    const std::vector<std::vector<Usable>>& usable) {
  std::map<std::string, size_t> nodes_with;
  for (const std::vector<Usable>& of_node : usable) {
    std::set<std::string> subnets;
    for (const Usable& u : of_node) subnets.insert(u.subnet);
    for (const std::string& subnet : subnets) ++nodes_with[subnet];
  }
  std::set<std::string> shared;
  for (const auto& [subnet, count] : nodes_with) {
    if (count == usable.size()) shared.insert(subnet);
  }
  return shared;
}

// Of several shared subnets the one by which most nodes reached the daemon,
// then IPv4 before IPv6, then the first in the first node's own order.
std::string PreferredSubnet(const std::vector<PlanNode>& nodes,
                            const std::vector<std::vector<Usable>>& usable) {
  const std::set<std::string> shared = SharedSubnets(usable);
  std::string best;
  std::pair<size_t, bool> best_score;
  for (const Usable& candidate : usable.front()) {
    if (!shared.contains(candidate.subnet)) continue;
    size_t observed = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Usable& u : usable[i]) {
        observed += u.subnet == candidate.subnet &&
                    u.address == nodes[i].observed_address;
      }
    }
    const std::pair<size_t, bool> score(observed, candidate.ipv4);
    if (best.empty() || score > best_score) {
      best = candidate.subnet;
      best_score = score;
    }
  }
  return best;
}

const Usable* Choose(const PlanNode& node, const std::vector<Usable>& usable,
                     const std::string& subnet) {
  const Usable* chosen = nullptr;
  const auto score = [&](const Usable& u) {
    return std::make_tuple(u.address == node.facts->advertised_address(),
                           !subnet.empty() && u.subnet == subnet,
                           u.address == node.observed_address, u.ipv4);
  };
  for (const Usable& u : usable) {
    if (chosen == nullptr || score(u) > score(*chosen)) chosen = &u;
  }
  return chosen;
}

// NCCL takes the first interface it likes; with several it may like a wrong
// one, and names differ between nodes.
std::vector<v1::PlannedVariable> NcclInterface(const v1::Facts& facts,
                                               const std::string& interface) {
  size_t candidates = 0;
  for (const v1::Interface& other : facts.interfaces()) {
    candidates += other.up() && !other.loopback();
  }
  if (candidates < 2) return {};
  v1::PlannedVariable variable;
  variable.set_name("NCCL_SOCKET_IFNAME");
  variable.set_value(absl::StrCat("=", interface));
  variable.set_reason(absl::StrCat("the node has ", candidates,
                                   " interfaces; its peers use ", interface));
  return {variable};
}

// Gloo advertises what the host's own name resolves to. Where /etc/hosts gives
// it a loopback address as well (Debian's 127.0.1.1), resolvers that merge all
// lines of a name may put that first, whatever block stands above it.
v1::PlannedVariable GlooInterface(const std::string& interface) {
  v1::PlannedVariable variable;
  variable.set_name("GLOO_SOCKET_IFNAME");
  variable.set_value(interface);
  variable.set_reason(absl::StrCat(
      "the host's own name may mean loopback; its peers use ", interface));
  return variable;
}

absl::Status NoAddress(const std::vector<PlanNode>& nodes,
                       const std::vector<std::vector<Usable>>& usable) {
  std::vector<std::string> without;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!usable[i].empty()) continue;
    std::vector<std::string> has;
    for (const v1::Interface& interface : nodes[i].facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        has.push_back(absl::StrCat(interface.name(), " ", a.address()));
      }
    }
    without.push_back(
        absl::StrCat(nodes[i].node, " (has ", absl::StrJoin(has, ", "), ")"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no address that peers could use on ", absl::StrJoin(without, "; "),
      "; expected one on an interface that is up, neither loopback, "
      "link-local, a container bridge, nor claimed by two machines"));
}

}  // namespace

bool IsLocalBridge(std::string_view interface) {
  for (const std::string_view prefix :
       {"docker", "br-", "virbr", "cni", "veth", "flannel", "cali", "podman",
        "lxc", "lxdbr", "kube-", "cilium"}) {
    if (interface.starts_with(prefix)) return true;
  }
  return false;
}

bool IsUnusable(std::string_view address) {
  const std::optional<std::string> bytes = Bytes(address);
  if (!bytes) return true;
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>((*bytes)[i]);
  };
  if (bytes->size() == 4) {
    return byte(0) == 0 || byte(0) == 127 || byte(0) >= 224 ||
           (byte(0) == 169 && byte(1) == 254);
  }
  static const std::string kUnspecified(16, '\0');
  static const std::string kLoopback = std::string(15, '\0') + '\1';
  return *bytes == kUnspecified || *bytes == kLoopback || byte(0) == 0xff ||
         (byte(0) == 0xfe && (byte(1) & 0xc0) == 0x80);
}

absl::StatusOr<NetworkPlan> PlanNetwork(const std::vector<PlanNode>& nodes) {
  NetworkPlan plan;
  plan.nodes.resize(nodes.size());
  if (nodes.empty()) return plan;
  std::set<std::string> places;
  bool known = true;
  for (const PlanNode& node : nodes) {
    places.insert(Place(*node.facts));
    known = known && !node.facts->boot_id().empty();
  }
  if (nodes.size() == 1 || (known && places.size() == 1)) {
    plan.one_machine = true;
    for (PlannedNode& node : plan.nodes) node.address = "127.0.0.1";
    return plan;
  }
  const std::set<std::string> disputed = Disputed(nodes);
  std::vector<std::vector<Usable>> usable;
  bool all = true;
  for (const PlanNode& node : nodes) {
    usable.push_back(UsableAddresses(node, disputed));
    // A platform may name an address that no interface has (1:1 NAT).
    const std::string& advertised = node.facts->advertised_address();
    if (!advertised.empty() && !IsUnusable(advertised)) {
      usable.back().push_back(
          {advertised, "", "", advertised.find(':') == std::string::npos});
    }
    all = all && !usable.back().empty();
  }
  if (!all) return NoAddress(nodes, usable);
  const std::string subnet = PreferredSubnet(nodes, usable);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Usable* chosen = Choose(nodes[i], usable[i], subnet);
    plan.nodes[i].address = chosen->address;
    if (!chosen->interface.empty()) {
      plan.nodes[i].variables =
          NcclInterface(*nodes[i].facts, chosen->interface);
      plan.nodes[i].variables.push_back(GlooInterface(chosen->interface));
    }
  }
  return plan;
}

}  // namespace rollcall
