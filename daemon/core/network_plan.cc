#include "daemon/core/network_plan.h"

#include <arpa/inet.h>

#include <algorithm>
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

// By address: the node that was seen to connect from it and has it on an
// interface. An address with two such nodes on two machines (they are behind
// one NAT) is nobody's.
std::map<std::string, const PlanNode*> Seen(
    const std::vector<PlanNode>& nodes) {
  std::map<std::string, const PlanNode*> seen;
  std::set<std::string> shared;
  for (const PlanNode& node : nodes) {
    const std::optional<std::string> key = Bytes(node.observed_address);
    if (!key || IsUnusable(node.observed_address)) continue;
    for (const v1::Interface& interface : node.facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        if (Bytes(a.address()) != key) continue;
        const auto [at, fresh] = seen.emplace(*key, &node);
        if (!fresh && Place(*at->second->facts) != Place(*node.facts)) {
          shared.insert(*key);
        }
      }
    }
  }
  for (const std::string& key : shared) seen.erase(key);
  return seen;
}

using Owners = std::map<std::string, const PlanNode*>;

// The node on another machine whose address this was seen to be; null: none.
const PlanNode* OtherOwner(const Owners& seen, const std::string& address,
                           const PlanNode& node) {
  const std::optional<std::string> key = Bytes(address);
  if (!key) return nullptr;
  const auto at = seen.find(*key);
  if (at == seen.end() || Place(*at->second->facts) == Place(*node.facts)) {
    return nullptr;
  }
  return at->second;
}

// Each address that the node says is its own, and whether on an interface that
// peers could use.
template <typename Visit>
void ForEachClaim(const PlanNode& node, const Visit& visit) {
  for (const v1::Interface& interface : node.facts->interfaces()) {
    const bool bridge = IsLocalBridge(interface.name());
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      visit(a.address(), !bridge);
    }
  }
  if (!node.facts->advertised_address().empty()) {
    visit(node.facts->advertised_address(), true);
  }
}

// Claims of what was seen to be another's.
void IgnoreClaims(const std::vector<PlanNode>& nodes, const Owners& seen,
                  NetworkPlan& plan) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::set<std::string>& ignored = plan.nodes[i].ignored;
    ForEachClaim(nodes[i], [&](const std::string& address, bool usable) {
      const PlanNode* owner = OtherOwner(seen, address, nodes[i]);
      if (owner == nullptr || !ignored.insert(address).second) return;
      // Container bridges look the same everywhere.
      if (!usable || plan.ignored.size() >= kIgnoredClaimsMax) return;
      plan.ignored.push_back({nodes[i].node, address, owner->node});
    });
  }
}

// Addresses that nodes in different places claim, and the places.
using Claims = std::map<std::string, std::set<std::string>>;

Claims Disputed(const std::vector<PlanNode>& nodes, const NetworkPlan& plan) {
  Claims claims;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const v1::Interface& interface : nodes[i].facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        if (plan.nodes[i].ignored.contains(a.address())) continue;
        claims[a.address()].insert(Place(*nodes[i].facts));
      }
    }
  }
  std::erase_if(claims, [](const auto& one) { return one.second.size() < 2; });
  return claims;
}

// `disputed`: null where disputes do not count.
std::vector<Usable> UsableAddresses(const PlanNode& node,
                                    const std::set<std::string>& ignored,
                                    const Claims* disputed) {
  std::vector<Usable> usable;
  for (const v1::Interface& interface : node.facts->interfaces()) {
    if (!interface.up() || interface.loopback()) continue;
    if (IsLocalBridge(interface.name())) continue;
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      const std::optional<std::string> bytes = Bytes(a.address());
      if (!bytes || IsUnusable(a.address())) continue;
      if (ignored.contains(a.address())) continue;
      if (disputed != nullptr && disputed->contains(a.address())) continue;
      usable.push_back({a.address(), interface.name(),
                        Subnet(*bytes, a.prefix_length()), bytes->size() == 4});
    }
  }
  // A platform may name an address that no interface has (1:1 NAT).
  const std::string& advertised = node.facts->advertised_address();
  if (!advertised.empty() && !IsUnusable(advertised) &&
      !ignored.contains(advertised)) {
    usable.push_back(
        {advertised, "", "", advertised.find(':') == std::string::npos});
  }
  return usable;
}

// Nodes that disputes have left without any address get those back that nobody
// claims who is left without one as well: another node's claim alone takes no
// node's last address.
void KeepLastAddresses(const std::vector<PlanNode>& nodes,
                       const NetworkPlan& plan, Claims& disputed,
                       std::vector<std::vector<Usable>>& usable) {
  std::vector<size_t> without;
  std::map<std::string, std::set<std::string>> wanted;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!usable[i].empty()) continue;
    without.push_back(i);
    for (const Usable& u :
         UsableAddresses(nodes[i], plan.nodes[i].ignored, nullptr)) {
      wanted[u.address].insert(Place(*nodes[i].facts));
    }
  }
  for (const auto& [address, places] : wanted) {
    if (places.size() == 1) disputed.erase(address);
  }
  for (const size_t i : without) {
    usable[i] = UsableAddresses(nodes[i], plan.nodes[i].ignored, &disputed);
  }
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
                       const std::vector<std::vector<Usable>>& usable,
                       std::vector<std::string>* names) {
  std::vector<std::string> without;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!usable[i].empty()) continue;
    if (names != nullptr) names->push_back(nodes[i].node);
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

absl::StatusOr<NetworkPlan> PlanNetwork(const std::vector<PlanNode>& nodes,
                                        std::vector<std::string>* without) {
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
  IgnoreClaims(nodes, Seen(nodes), plan);
  Claims disputed = Disputed(nodes, plan);
  std::vector<std::vector<Usable>> usable;
  for (size_t i = 0; i < nodes.size(); ++i) {
    usable.push_back(
        UsableAddresses(nodes[i], plan.nodes[i].ignored, &disputed));
  }
  KeepLastAddresses(nodes, plan, disputed, usable);
  const bool all =
      std::none_of(usable.begin(), usable.end(),
                   [](const std::vector<Usable>& of) { return of.empty(); });
  if (!all) return NoAddress(nodes, usable, without);
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
