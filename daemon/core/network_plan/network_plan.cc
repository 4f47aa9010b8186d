#include "daemon/core/network_plan/network_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/network_plan/address_proof.h"
#include "daemon/core/network_plan/comparison/fabric.h"
#include "daemon/core/network_plan/cuts.h"
#include "daemon/core/network_plan/socket_settings.h"

namespace rollcall {
namespace {

// At most this many bytes of fabric settings are added to a node's row.
constexpr size_t kFabricBytesMax = 2 << 10;

// Subnets in which every node has an address.
std::set<std::string> SharedSubnets(
    const std::vector<std::vector<UsableAddress>>& usable) {
  std::map<std::string, size_t> nodes_with;
  for (const std::vector<UsableAddress>& of_node : usable) {
    std::set<std::string> subnets;
    for (const UsableAddress& u : of_node) subnets.insert(u.subnet);
    for (const std::string& subnet : subnets) ++nodes_with[subnet];
  }
  std::set<std::string> shared;
  for (const auto& [subnet, count] : nodes_with) {
    if (count == usable.size()) shared.insert(subnet);
  }
  return shared;
}

// The subnet to use if all nodes share several: the one from which most nodes
// connect to the daemon; then IPv4 before IPv6; then the first one of the first
// node.
std::string PreferredSubnet(
    const std::vector<PlanNode>& nodes,
    const std::vector<std::vector<UsableAddress>>& usable) {
  const std::set<std::string> shared = SharedSubnets(usable);
  std::string best;
  std::pair<size_t, bool> best_score;
  for (const UsableAddress& candidate : usable.front()) {
    if (!shared.contains(candidate.subnet)) continue;
    size_t observed = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const UsableAddress& u : usable[i]) {
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

const UsableAddress* Choose(const PlanNode& node,
                            const std::vector<UsableAddress>& usable,
                            const std::string& subnet,
                            const AddressProof& proof) {
  const UsableAddress* chosen = nullptr;
  const auto score = [&](const UsableAddress& u) {
    return std::make_tuple(proof.Votes(node, u.address),
                           u.address == node.facts->advertised_address(),
                           !subnet.empty() && u.subnet == subnet,
                           u.address == node.observed_address, u.ipv4);
  };
  for (const UsableAddress& u : usable) {
    if (chosen == nullptr || score(u) > score(*chosen)) chosen = &u;
  }
  return chosen;
}

// Interfaces that were probed and have no proven address. If a node has many
// addresses, some are not probed, and nothing is known about those.
std::set<std::string> Unreached(const PlanNode& node,
                                const std::vector<UsableAddress>& proven) {
  std::set<std::string> unreached;
  if (node.probed == nullptr) return unreached;
  for (const UsableAddress& u : UsableAddresses(node)) {
    const bool tried = std::any_of(
        node.probed->begin(), node.probed->end(),
        [&](const auto& by) { return by.second.found.contains(u.address); });
    if (tried) unreached.insert(u.interface);
  }
  for (const UsableAddress& u : proven) unreached.erase(u.interface);
  return unreached;
}

// "its peers do not reach it at lost0 10.66.0.1".
std::string UnreachedText(const PlanNode& node,
                          const std::set<std::string>& unreached) {
  std::vector<std::string> at;
  for (const UsableAddress& u : UsableAddresses(node)) {
    if (at.size() == kPlanNamedMax) break;
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
               const std::vector<std::vector<UsableAddress>>& proven,
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
    // No real driver has such long device names. The settings go into every
    // node's table, so they are bounded.
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
// This is wrong for sandboxes that hide the boot id, and for several machines
// that are all named localhost.
void AddHostIds(const std::vector<PlanNode>& nodes, NetworkPlan& plan) {
  const auto key = [](const v1::Facts& facts) {
    return std::pair(facts.hostname(), facts.boot_id());
  };
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const PlanNode& node : nodes) ++counts[key(*node.facts)];
  for (size_t i = 0; i < nodes.size(); ++i) {
    const v1::Facts& facts = *nodes[i].facts;
    // If nodes with the same boot id share a hostname, they share a UTS
    // namespace, so they are the same host.
    if (!facts.boot_id().empty() || counts[key(facts)] < 2) continue;
    v1::PlannedVariable& variable = plan.nodes[i].variables.emplace_back();
    variable.set_name("NCCL_HOSTID");
    variable.set_value(nodes[i].node);
    variable.set_reason(absl::StrCat(
        "several nodes are named ", facts.hostname(),
        " and show no boot id, so NCCL would treat them as one machine"));
  }
}

absl::Status NoAddress(const std::vector<PlanNode>& nodes,
                       const std::vector<std::vector<UsableAddress>>& proven,
                       std::vector<std::string>* names) {
  std::vector<std::string> without;
  size_t count = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!proven[i].empty()) continue;
    if (names != nullptr) names->push_back(nodes[i].node);
    ++count;
    if (without.size() == kPlanNamedMax) continue;
    std::vector<std::string> has;
    size_t more = 0;
    for (const v1::Interface& interface : nodes[i].facts->interfaces()) {
      for (const v1::InterfaceAddress& a : interface.addresses()) {
        if (has.size() == kPlanNamedMax) {
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

bool IsOneMachine(const std::vector<PlanNode>& nodes) {
  std::set<std::string> machines;
  for (const PlanNode& node : nodes) {
    if (nodes.size() > 1 && node.facts->boot_id().empty()) return false;
    machines.insert(MachineOf(*node.facts));
  }
  return machines.size() == 1;
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
  const auto check = [&](const std::vector<std::string>& addresses) {
    const std::vector<Cut> cuts = CutsOf(nodes, addresses);
    if (cuts.empty()) return absl::OkStatus();
    if (without != nullptr) *without = WithoutCuts(nodes, cuts);
    return Unreachable(nodes, cuts);
  };
  if (absl::Status cut = check({}); !cut.ok()) return cut;
  const AddressProof proof(nodes);
  std::vector<std::vector<UsableAddress>> proven;
  for (const PlanNode& node : nodes) {
    proven.push_back(UsableAddresses(node));
    std::erase_if(proven.back(), [&](const UsableAddress& u) {
      return !proof.Proves(node, u);
    });
  }
  if (std::any_of(
          proven.begin(), proven.end(),
          [](const std::vector<UsableAddress>& of) { return of.empty(); })) {
    return NoAddress(nodes, proven, without);
  }
  const std::string subnet = PreferredSubnet(nodes, proven);
  std::vector<std::string> addresses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    PlannedNode& planned = plan.nodes[i];
    const UsableAddress* chosen = Choose(nodes[i], proven[i], subnet, proof);
    addresses.push_back(chosen->address);
    planned.address = chosen->address;
    for (const UsableAddress& u : proven[i]) {
      planned.addresses.push_back(u.address);
    }
    planned.interface = chosen->interface;
    planned.variables = SocketSettings(*nodes[i].facts, *chosen);
  }
  if (absl::Status cut = check(addresses); !cut.ok()) return cut;
  AddFabric(nodes, proven, plan);
  AddHostIds(nodes, plan);
  return plan;
}

}  // namespace rollcall
