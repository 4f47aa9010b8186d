#include "daemon/core/network_plan/network_plan.h"

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
#include "daemon/core/network_plan/fabric.h"

namespace rollcall {
namespace {

// Most nodes, pairs or addresses named in one message.
constexpr size_t kCutsNamedMax = 8;

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
  bool default_route;
};

std::string Place(const v1::Facts& facts) {
  return absl::StrCat(facts.boot_id(), "/", facts.network_namespace());
}

// Addresses (as bytes) that a node connects from and has on an interface, with
// the machines of these nodes. An address with two machines (they are behind
// one NAT) proves nothing.
using Observed = std::map<std::string, std::set<std::string>>;

Observed ObservedOf(const std::vector<PlanNode>& nodes) {
  Observed observed;
  for (const PlanNode& node : nodes) {
    const std::optional<std::string> key = Bytes(node.observed_address);
    if (!key) continue;
    for (const v1::Interface& interface : node.facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        if (Bytes(a.address()) == key)
          observed[*key].insert(Place(*node.facts));
      }
    }
  }
  return observed;
}

bool Reached(const ProbeReport& report, const std::string& address) {
  const auto at = report.found.find(address);
  return at != report.found.end() && at->second.reached;
}

// Names of the probers that count: the nodes of the plan; if some of them are
// in the running world, only those. So spares cannot outvote members.
using Voters = std::set<std::string_view>;

Voters VotersOf(const std::vector<PlanNode>& nodes) {
  const bool runs =
      std::any_of(nodes.begin(), nodes.end(),
                  [](const PlanNode& node) { return node.stays; });
  Voters voters;
  for (const PlanNode& node : nodes) {
    if (node.stays || !runs) voters.insert(node.node);
  }
  // A node does not probe itself, so if only one member is left, all nodes of
  // the plan vote.
  if (voters.size() < 2) {
    for (const PlanNode& node : nodes) voters.insert(node.node);
  }
  return voters;
}

struct Vote {
  size_t voters = 0;
  size_t reached = 0;
};

// How many of the counting probers that were drawn for the node got the node's
// own answer at `address`.
Vote VoteOf(const PlanNode& node, const std::string& address,
            const Voters& voters) {
  Vote vote;
  if (node.probed == nullptr) return vote;
  for (const auto& [prober, report] : *node.probed) {
    if (!voters.contains(prober)) continue;
    ++vote.voters;
    vote.reached += Reached(report, address);
  }
  return vote;
}

bool IsProven(const PlanNode& node, const Usable& usable,
              const Observed& observed, const Voters& voters) {
  if (node.probed == nullptr && node.launcher) return true;
  const Vote vote = VoteOf(node, usable.address, voters);
  if (2 * vote.reached > vote.voters) return true;
  const std::optional<std::string> key = Bytes(usable.address);
  if (usable.interface.empty() || key != Bytes(node.observed_address)) {
    return false;
  }
  return observed.at(*key).size() == 1;
}

// Addresses that peers might reach, proven or not, in the node's own order.
std::vector<Usable> UsableAddresses(const PlanNode& node) {
  std::vector<Usable> usable;
  for (const v1::Interface& interface : node.facts->interfaces()) {
    if (!interface.up() || interface.loopback()) continue;
    // A bridge by its name is not usable, unless the node itself reaches others
    // through it.
    const bool used =
        interface.default_route() ||
        std::any_of(interface.addresses().begin(), interface.addresses().end(),
                    [&](const v1::InterfaceAddress& a) {
                      return a.address() == node.observed_address;
                    });
    if (!used && IsLocalBridge(interface.name())) continue;
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      const std::optional<std::string> bytes = Bytes(a.address());
      if (!bytes || IsUnusable(a.address())) continue;
      usable.push_back({a.address(), interface.name(),
                        Subnet(*bytes, a.prefix_length()), bytes->size() == 4,
                        interface.default_route()});
    }
  }
  // A platform may name an address that no interface has (1:1 NAT).
  const std::string& advertised = node.facts->advertised_address();
  const bool known =
      std::any_of(usable.begin(), usable.end(),
                  [&](const Usable& u) { return u.address == advertised; });
  if (!advertised.empty() && !known && !IsUnusable(advertised)) {
    usable.push_back(
        {advertised, "", "", advertised.find(':') == std::string::npos, false});
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

// Of several shared subnets, the one from which most nodes connect to the
// daemon, then IPv4 before IPv6, then the first in the first node's own order.
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
                     const std::string& subnet, const Voters& voters) {
  const Usable* chosen = nullptr;
  const auto score = [&](const Usable& u) {
    return std::make_tuple(VoteOf(node, u.address, voters).reached,
                           u.address == node.facts->advertised_address(),
                           !subnet.empty() && u.subnet == subnet,
                           u.address == node.observed_address, u.ipv4);
  };
  for (const Usable& u : usable) {
    if (chosen == nullptr || score(u) > score(*chosen)) chosen = &u;
  }
  return chosen;
}

// Names the interface, if the node has several that NCCL may choose: NCCL uses
// the first suitable one, which may be the wrong one, and names differ between
// nodes.
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

// If an interface has addresses of both families, NCCL uses the IPv4 one
// (getifaddrs(3) lists it first), which peers may not reach.
std::vector<v1::PlannedVariable> NcclFamily(const v1::Facts& facts,
                                            const Usable& chosen) {
  if (chosen.ipv4) return {};
  for (const v1::Interface& interface : facts.interfaces()) {
    if (interface.name() != chosen.interface) continue;
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      const std::optional<std::string> bytes = Bytes(a.address());
      if (!bytes || bytes->size() != 4) continue;
      v1::PlannedVariable variable;
      variable.set_name("NCCL_SOCKET_FAMILY");
      variable.set_value("AF_INET6");
      variable.set_reason(
          absl::StrCat("its peers use ", chosen.address, ", ", chosen.interface,
                       " also has ", a.address(), ", and NCCL would use that"));
      return {variable};
    }
  }
  return {};
}

// Gloo advertises the address that the host's own name resolves to. If
// /etc/hosts also has a loopback address for it (Debian's 127.0.1.1), resolvers
// that merge all lines of a name may put that address first, even if our lines
// come before it.
v1::PlannedVariable GlooInterface(const std::string& interface) {
  v1::PlannedVariable variable;
  variable.set_name("GLOO_SOCKET_IFNAME");
  variable.set_value(interface);
  variable.set_reason(absl::StrCat(
      "the host's own name may resolve to loopback; its peers use ",
      interface));
  return variable;
}

// How many bytes the fabric's settings may add to a node's row.
constexpr size_t kFabricBytesMax = 2 << 10;

// Interfaces that were probed and have no proven address. If a node has many
// addresses, some are not probed; nothing is known of those.
std::set<std::string> Unreached(const PlanNode& node,
                                const std::vector<Usable>& proven) {
  std::set<std::string> unreached;
  if (node.probed == nullptr) return unreached;
  for (const Usable& u : UsableAddresses(node)) {
    const bool tried = std::any_of(
        node.probed->begin(), node.probed->end(),
        [&](const auto& by) { return by.second.found.contains(u.address); });
    if (tried) unreached.insert(u.interface);
  }
  for (const Usable& u : proven) unreached.erase(u.interface);
  return unreached;
}

// "its peers do not reach it at lost0 10.66.0.1".
std::string UnreachedText(const PlanNode& node,
                          const std::set<std::string>& unreached) {
  std::vector<std::string> at;
  for (const Usable& u : UsableAddresses(node)) {
    if (at.size() == kCutsNamedMax) break;
    if (!unreached.contains(u.interface)) continue;
    at.push_back(
        absl::StrCat(u.interface, u.interface.empty() ? "" : " ", u.address));
  }
  if (at.empty()) return "";
  return absl::StrCat("its peers do not reach it at ", absl::StrJoin(at, ", "),
                      " by TCP; if this job needs it, check its cable, routes "
                      "and firewall");
}

void AddFabric(const std::vector<PlanNode>& nodes,
               const std::vector<std::vector<Usable>>& proven,
               NetworkPlan& plan) {
  std::vector<FabricNode> fabric;
  for (size_t i = 0; i < nodes.size(); ++i) {
    fabric.push_back(
        {nodes[i].node, nodes[i].facts, Unreached(nodes[i], proven[i])});
  }
  std::vector<FabricPorts> ports = PlanFabric(fabric);
  for (size_t i = 0; i < nodes.size(); ++i) {
    PlannedNode& planned = plan.nodes[i];
    planned.rails = std::move(ports[i].rails);
    planned.warning = std::move(ports[i].warning);
    size_t bytes = 0;
    for (const v1::PlannedVariable& variable : ports[i].variables) {
      bytes += variable.ByteSizeLong();
    }
    // No driver has such long device names. The settings go into every node's
    // table, so they are bounded.
    if (bytes > kFabricBytesMax) {
      planned.warning = absl::StrCat(
          "its settings for RDMA take ", bytes, " bytes, more than ",
          kFabricBytesMax, ", and are left out; set NCCL_IB_HCA yourself");
      ports[i].variables.clear();
    }
    for (v1::PlannedVariable& variable : ports[i].variables) {
      planned.variables.push_back(std::move(variable));
    }
    const std::string unreached = UnreachedText(nodes[i], fabric[i].unreached);
    const bool both = !planned.warning.empty() && !unreached.empty();
    absl::StrAppend(&planned.warning, both ? "; " : "", unreached);
    planned.unreached = std::move(fabric[i].unreached);
  }
}

// NCCL assumes that processes with the same hostname and boot id share memory.
// This is wrong for sandboxes that hide the boot id and for several machines
// named localhost.
void AddHostIds(const std::vector<PlanNode>& nodes, NetworkPlan& plan) {
  const auto key = [](const v1::Facts& facts) {
    return std::pair(facts.hostname(), facts.boot_id());
  };
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const PlanNode& node : nodes) ++counts[key(*node.facts)];
  for (size_t i = 0; i < nodes.size(); ++i) {
    const v1::Facts& facts = *nodes[i].facts;
    // With a boot id, a hostname shared on one machine is a shared UTS
    // namespace: the same host.
    if (!facts.boot_id().empty() || counts[key(facts)] < 2) continue;
    v1::PlannedVariable& variable = plan.nodes[i].variables.emplace_back();
    variable.set_name("NCCL_HOSTID");
    variable.set_value(nodes[i].node);
    variable.set_reason(absl::StrCat(
        "several nodes are named ", facts.hostname(),
        " and show no boot id, so NCCL would treat them as one machine"));
  }
}

// One direction of a pair of nodes that cannot connect, by positions.
struct Cut {
  size_t prober;
  size_t target;
};

// A small set of nodes whose removal leaves no cut, chosen greedily: first the
// node with the most cuts; of two with as many, the one that is the prober in
// more of them. Nodes of the running world are chosen later, and the launcher's
// agent last, since it cannot be left out.
std::vector<std::string> WithoutCuts(const std::vector<PlanNode>& nodes,
                                     const std::vector<Cut>& cuts) {
  struct Count {
    size_t cuts = 0;
    size_t complaints = 0;
  };
  std::map<size_t, Count> counts;
  std::map<size_t, std::vector<size_t>> cuts_of;
  for (size_t i = 0; i < cuts.size(); ++i) {
    ++counts[cuts[i].prober].cuts;
    ++counts[cuts[i].prober].complaints;
    ++counts[cuts[i].target].cuts;
    cuts_of[cuts[i].prober].push_back(i);
    cuts_of[cuts[i].target].push_back(i);
  }
  const auto rank = [&](const auto& entry) {
    const auto& [at, count] = entry;
    return std::tuple(count.cuts > 0, !nodes[at].launcher, !nodes[at].stays,
                      count.cuts, count.complaints);
  };
  std::vector<bool> gone(cuts.size());
  size_t left = cuts.size();
  std::vector<std::string> without;
  while (left > 0) {
    const size_t worst = std::max_element(counts.begin(), counts.end(),
                                          [&](const auto& a, const auto& b) {
                                            return rank(a) < rank(b);
                                          })
                             ->first;
    without.push_back(nodes[worst].node);
    for (const size_t i : cuts_of[worst]) {
      if (gone[i]) continue;
      gone[i] = true;
      --left;
      --counts[cuts[i].prober].cuts;
      --counts[cuts[i].prober].complaints;
      --counts[cuts[i].target].cuts;
    }
  }
  return without;
}

const ProbeReport& ReportOf(const PlanNode& prober, const PlanNode& target) {
  return target.probed->at(prober.node);
}

// "b cannot reach a at 10.0.0.1 (connection refused)".
std::string CutText(const PlanNode& prober, const PlanNode& target) {
  const ProbeReport& report = ReportOf(prober, target);
  if (!report.answered) {
    return absl::StrCat(prober.node, " has not reported whether it reaches ",
                        target.node);
  }
  std::vector<std::string> at;
  for (const Usable& u : UsableAddresses(target)) {
    if (at.size() == kCutsNamedMax) break;
    const auto found = report.found.find(u.address);
    if (found != report.found.end() && found->second.reached) continue;
    const bool said =
        found != report.found.end() && !found->second.error.empty();
    at.push_back(absl::StrCat(u.address, " (",
                              said ? found->second.error : "no answer", ")"));
  }
  return absl::StrCat(prober.node, " cannot reach ", target.node, " at ",
                      absl::StrJoin(at, ", "));
}

// Whether it connects from an address that is on none of its interfaces.
bool IsBehindNat(const PlanNode& node) {
  const std::optional<std::string> seen = Bytes(node.observed_address);
  if (!seen || IsUnusable(node.observed_address)) return false;
  for (const v1::Interface& interface : node.facts->interfaces()) {
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      if (Bytes(a.address()) == seen) return false;
    }
  }
  return true;
}

std::string NatText(const std::vector<PlanNode>& nodes,
                    const std::set<size_t>& concerned) {
  std::vector<std::string> behind;
  for (const size_t i : concerned) {
    if (!IsBehindNat(nodes[i]) || behind.size() == kCutsNamedMax) continue;
    behind.push_back(absl::StrCat(nodes[i].node, " connects from ",
                                  nodes[i].observed_address));
  }
  if (behind.empty()) return "";
  return absl::StrCat("; network address translation is the likely cause, ",
                      absl::StrJoin(behind, ", "),
                      ", which is on none of its interfaces");
}

absl::Status Unreachable(const std::vector<PlanNode>& nodes,
                         const std::vector<Cut>& cuts,
                         std::vector<std::string>* without) {
  if (without != nullptr) *without = WithoutCuts(nodes, cuts);
  std::vector<std::string> named;
  // Targets of probers that have reported.
  std::set<size_t> concerned;
  for (const Cut& cut : cuts) {
    if (ReportOf(nodes[cut.prober], nodes[cut.target]).answered) {
      concerned.insert(cut.target);
    }
    if (named.size() == kCutsNamedMax) continue;
    named.push_back(CutText(nodes[cut.prober], nodes[cut.target]));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      absl::StrJoin(named, "; "),
      cuts.size() > named.size()
          ? absl::StrCat("; and ", cuts.size() - named.size(), " more pairs")
          : "",
      NatText(nodes, concerned),
      concerned.empty()
          ? "; expected a report in time; its agent's log may say why"
          : "; expected one address of each node that all others reach by TCP "
            "on any port; check firewalls and routes, or start without these "
            "nodes"));
}

// Pairs that were probed and did not connect at the target's entry of
// `addresses` (one per node), or, if that is empty, at any address.
std::vector<Cut> CutsOf(const std::vector<PlanNode>& nodes,
                        const std::vector<std::string>& addresses) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i].node] = i;
  std::vector<Cut> cuts;
  for (size_t target = 0; target < nodes.size(); ++target) {
    if (nodes[target].probed == nullptr) continue;
    for (const auto& [prober, report] : *nodes[target].probed) {
      const auto at = places.find(prober);
      if (at == places.end()) continue;
      const bool reached =
          addresses.empty()
              ? std::any_of(report.found.begin(), report.found.end(),
                            [](const auto& one) { return one.second.reached; })
              : Reached(report, addresses[target]);
      if (!reached) cuts.push_back({at->second, target});
    }
  }
  return cuts;
}

absl::Status NoAddress(const std::vector<PlanNode>& nodes,
                       const std::vector<std::vector<Usable>>& proven,
                       std::vector<std::string>* names) {
  std::vector<std::string> without;
  size_t count = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!proven[i].empty()) continue;
    if (names != nullptr) names->push_back(nodes[i].node);
    ++count;
    if (without.size() == kCutsNamedMax) continue;
    std::vector<std::string> has;
    size_t more = 0;
    for (const v1::Interface& interface : nodes[i].facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        if (has.size() == kCutsNamedMax) {
          ++more;
          continue;
        }
        has.push_back(absl::StrCat(interface.name(), " ", a.address()));
      }
    }
    without.push_back(absl::StrCat(
        nodes[i].node, " (connects from ", nodes[i].observed_address, ", has ",
        has.empty() ? "none" : absl::StrJoin(has, ", "),
        more > 0 ? absl::StrCat(" and ", more, " more") : "", ")"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no address that peers could use on ", absl::StrJoin(without, "; "),
      count > without.size()
          ? absl::StrCat("; nor on ", count - without.size(), " more nodes")
          : "",
      "; expected an address on an interface that is up, not loopback, not "
      "link-local and not a container bridge, which most of the other nodes "
      "reach or from which the node connects"));
}

}  // namespace

bool IsLocalBridge(std::string_view interface) {
  // Docker's own networks. OpenStack's br-ex and OpenWrt's br-lan do not match.
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
  const std::optional<std::string> bytes = Bytes(address);
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

std::vector<std::string> CandidateAddresses(const PlanNode& node) {
  std::vector<Usable> usable = UsableAddresses(node);
  const auto rank = [&](const Usable& u) {
    return std::make_tuple(u.address != node.facts->advertised_address(),
                           Bytes(u.address) != Bytes(node.observed_address),
                           !u.default_route, !u.ipv4);
  };
  std::stable_sort(
      usable.begin(), usable.end(),
      [&](const Usable& a, const Usable& b) { return rank(a) < rank(b); });
  std::vector<std::string> addresses;
  for (Usable& u : usable) addresses.push_back(std::move(u.address));
  return addresses;
}

bool IsOneMachine(const std::vector<PlanNode>& nodes) {
  std::set<std::string> places;
  for (const PlanNode& node : nodes) {
    if (nodes.size() > 1 && node.facts->boot_id().empty()) return false;
    places.insert(Place(*node.facts));
  }
  return places.size() == 1;
}

absl::StatusOr<NetworkPlan> PlanNetwork(const std::vector<PlanNode>& nodes,
                                        std::vector<std::string>* without) {
  NetworkPlan plan;
  plan.nodes.resize(nodes.size());
  if (nodes.empty()) return plan;
  if (IsOneMachine(nodes)) {
    plan.one_machine = true;
    for (PlannedNode& node : plan.nodes) {
      node.address = "127.0.0.1";
      node.addresses = {node.address};
    }
    return plan;
  }
  if (const std::vector<Cut> cuts = CutsOf(nodes, {}); !cuts.empty()) {
    return Unreachable(nodes, cuts, without);
  }
  const Observed observed = ObservedOf(nodes);
  const Voters voters = VotersOf(nodes);
  std::vector<std::vector<Usable>> proven;
  for (const PlanNode& node : nodes) {
    proven.push_back(UsableAddresses(node));
    std::erase_if(proven.back(), [&](const Usable& u) {
      return !IsProven(node, u, observed, voters);
    });
  }
  if (std::any_of(proven.begin(), proven.end(),
                  [](const std::vector<Usable>& of) { return of.empty(); })) {
    return NoAddress(nodes, proven, without);
  }
  const std::string subnet = PreferredSubnet(nodes, proven);
  std::vector<std::string> addresses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    PlannedNode& planned = plan.nodes[i];
    const Usable* chosen = Choose(nodes[i], proven[i], subnet, voters);
    addresses.push_back(chosen->address);
    planned.address = chosen->address;
    for (const Usable& u : proven[i]) planned.addresses.push_back(u.address);
    planned.interface = chosen->interface;
    if (chosen->interface.empty()) continue;
    planned.variables = NcclInterface(*nodes[i].facts, chosen->interface);
    for (v1::PlannedVariable& v : NcclFamily(*nodes[i].facts, *chosen)) {
      planned.variables.push_back(std::move(v));
    }
    planned.variables.push_back(GlooInterface(chosen->interface));
  }
  if (const std::vector<Cut> cuts = CutsOf(nodes, addresses); !cuts.empty()) {
    return Unreachable(nodes, cuts, without);
  }
  AddFabric(nodes, proven, plan);
  AddHostIds(nodes, plan);
  return plan;
}

}  // namespace rollcall
