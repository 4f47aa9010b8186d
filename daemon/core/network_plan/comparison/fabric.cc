#include "daemon/core/network_plan/comparison/fabric.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

constexpr std::string_view kInfiniband = "InfiniBand";
constexpr std::string_view kEthernet = "Ethernet";
constexpr std::string_view kRoceV2 = "RoCE v2";
// A reason names at most this many ports.
constexpr size_t kPortsNamedMax = 4;

// Two ports can form one rail only if these are equal.
using PortKind = std::pair<std::string, uint32_t>;  // Link layer, Gb/s.

PortKind KindOf(const v1::InfinibandPort& port) {
  return {port.link_layer(), port.rate_gbps()};
}

std::string NameOf(const v1::InfinibandPort& port) {
  return absl::StrCat(port.device(), ":", port.port());
}

bool IsMappedIpv4(const v1::Gid& gid) {
  return absl::StartsWith(gid.address(), "::ffff:");
}

bool IsLinkLocal(const v1::Gid& gid) {
  return absl::StartsWith(gid.address(), "fe80:");
}

const std::string& InterfaceOf(const v1::InfinibandPort& port,
                               const v1::Gid& gid) {
  return gid.net_device().empty() ? port.net_device() : gid.net_device();
}

// Why the fabric cannot use this active port. Empty: it can.
std::string Flaw(const FabricNode& node, const v1::InfinibandPort& port) {
  if (port.link_layer() != kEthernet) return "";
  if (PeerGid(port, node.unreached) != nullptr) return "";
  const v1::Gid* gid = PeerGid(port);
  if (gid == nullptr) return "has no RoCE v2 address";
  return absl::StrCat("its peers do not reach ", InterfaceOf(port, *gid));
}

// The indices of a node's active ports without a flaw, by kind.
std::map<PortKind, std::vector<int>> UsableByKind(const FabricNode& node) {
  std::map<PortKind, std::vector<int>> usable;
  for (int i = 0; i < node.facts->infiniband_size(); ++i) {
    const v1::InfinibandPort& port = node.facts->infiniband(i);
    if (IsActive(port) && Flaw(node, port).empty()) {
      usable[KindOf(port)].push_back(i);
    }
  }
  return usable;
}

// The kind to use, of the kinds that all nodes have: the one with the highest
// total speed on the node with the fewest such ports; of equal ones,
// InfiniBand. If the nodes share only a link layer, but no speed: that link
// layer, with speed 0.
std::optional<PortKind> SharedKind(
    const std::vector<std::map<PortKind, std::vector<int>>>& usable) {
  // Nodes; fewest ports on one node.
  std::map<PortKind, std::pair<size_t, size_t>> shared;
  std::map<std::string, size_t> layers;
  for (const auto& of_node : usable) {
    std::set<std::string> here;
    for (const auto& [kind, ports] : of_node) {
      const auto [at, fresh] =
          shared.try_emplace(kind, std::pair(size_t{0}, ports.size()));
      ++at->second.first;
      at->second.second = std::min(at->second.second, ports.size());
      here.insert(kind.first);
    }
    for (const std::string& layer : here) ++layers[layer];
  }
  std::optional<PortKind> best;
  std::tuple<uint64_t, bool> best_score;
  for (const auto& [kind, count] : shared) {
    if (count.first != usable.size()) continue;
    const std::tuple<uint64_t, bool> score(uint64_t{kind.second} * count.second,
                                           kind.first == kInfiniband);
    if (best.has_value() && score <= best_score) continue;
    best = kind;
    best_score = score;
  }
  if (best.has_value()) return best;
  for (const std::string_view layer : {kInfiniband, kEthernet}) {
    const auto at = layers.find(std::string(layer));
    if (at != layers.end() && at->second == usable.size()) {
      return PortKind(layer, 0);
    }
  }
  return std::nullopt;
}

bool IsOfKind(const v1::InfinibandPort& port, const PortKind& kind) {
  return port.link_layer() == kind.first &&
         (kind.second == 0 || port.rate_gbps() == kind.second);
}

// The indices of all ports of a link layer, active or not. On machines of one
// model, NCCL's rails are their positions.
std::vector<int> OfLayer(const v1::Facts& facts, const std::string& layer) {
  std::vector<int> ports;
  for (int i = 0; i < facts.infiniband_size(); ++i) {
    if (facts.infiniband(i).link_layer() == layer) ports.push_back(i);
  }
  return ports;
}

// The rails by position: the positions that all nodes can use. Empty if the
// ports cannot be matched by position.
std::vector<std::vector<int>> RailsByPosition(
    const std::vector<FabricNode>& nodes, const PortKind& kind) {
  std::vector<std::vector<int>> all;
  for (const FabricNode& node : nodes) {
    all.push_back(OfLayer(*node.facts, kind.first));
    if (all.back().size() != all.front().size()) return {};
  }
  std::vector<std::vector<int>> rails(nodes.size());
  for (size_t position = 0; position < all.front().size(); ++position) {
    bool good = true;
    for (size_t i = 0; good && i < nodes.size(); ++i) {
      const v1::InfinibandPort& port =
          nodes[i].facts->infiniband(all[i][position]);
      good = IsActive(port) && IsOfKind(port, kind) &&
             Flaw(nodes[i], port).empty();
    }
    for (size_t i = 0; good && i < nodes.size(); ++i) {
      rails[i].push_back(all[i][position]);
    }
  }
  if (rails.front().empty()) return {};
  return rails;
}

v1::PlannedVariable Variable(std::string_view name, const std::string& value,
                             const std::string& reason) {
  v1::PlannedVariable variable;
  variable.set_name(std::string(name));
  variable.set_value(value);
  variable.set_reason(reason);
  return variable;
}

std::string WhyNot(const FabricNode& node, const v1::InfinibandPort& port,
                   const PortKind& kind) {
  if (port.link_layer() != kind.first) {
    return absl::StrCat("is ", port.link_layer(), ", the others use ",
                        kind.first);
  }
  if (const std::string flaw = Flaw(node, port); !flaw.empty()) return flaw;
  if (kind.second != 0 && port.rate_gbps() != kind.second) {
    return absl::StrCat("runs at ", port.rate_gbps(), " Gb/s, the others at ",
                        kind.second);
  }
  return "has no active counterpart on every other node";
}

// Names the ports to use, unless NCCL uses exactly these by default.
void ChoosePorts(const FabricNode& node, const PortKind& kind,
                 FabricPorts& plan) {
  std::vector<std::string> left_out;
  size_t more = 0;
  for (int i = 0; i < node.facts->infiniband_size(); ++i) {
    const v1::InfinibandPort& port = node.facts->infiniband(i);
    if (!IsActive(port)) continue;
    if (std::count(plan.rails.begin(), plan.rails.end(), i) > 0) continue;
    if (left_out.size() == kPortsNamedMax) {
      ++more;
      continue;
    }
    left_out.push_back(
        absl::StrCat(NameOf(port), " ", WhyNot(node, port, kind)));
  }
  if (left_out.empty()) return;
  std::vector<std::string> names;
  for (const int i : plan.rails) {
    names.push_back(NameOf(node.facts->infiniband(i)));
  }
  const std::string list = absl::StrJoin(names, ",");
  const std::string reason =
      absl::StrCat(absl::StrJoin(left_out, "; "),
                   more > 0 ? absl::StrCat("; and ", more, " more ports") : "");
  plan.variables.push_back(
      Variable("NCCL_IB_HCA", absl::StrCat("=", list), reason));
  plan.variables.push_back(Variable("UCX_NET_DEVICES", list, reason));
}

// Whether this NCCL version chooses the GID index itself (RoCE v2, IPv4). NCCL
// does since 2.21; before that it uses 0. (NCCL user guide, NCCL_IB_GID_INDEX
// and NCCL_IB_ADDR_FAMILY.)
bool ChoosesGid(const std::string& nccl) {
  const std::vector<std::string> parts = absl::StrSplit(nccl, '.');
  int major = 0;
  int minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) ||
      !absl::SimpleAtoi(parts[1], &minor)) {
    return false;
  }
  return std::pair(major, minor) >= std::pair(2, 21);
}

void ChooseGid(const FabricNode& node, FabricPorts& plan) {
  std::map<uint32_t, std::string> indices;  // Each with one port that has it.
  size_t ipv4 = 0;
  // Whether the GID of every port is the one that NCCL would choose.
  bool first = true;
  for (const int i : plan.rails) {
    const v1::InfinibandPort& port = node.facts->infiniband(i);
    const v1::Gid* gid = PeerGid(port, node.unreached);
    indices.emplace(gid->index(), NameOf(port));
    ipv4 += IsMappedIpv4(*gid);
    first = first && gid == PeerGid(port);
  }
  const std::string& nccl = node.facts->versions().nccl();
  if (first && ChoosesGid(nccl)) {
    if (ipv4 == plan.rails.size()) return;
    if (ipv4 == 0) {
      plan.variables.push_back(
          Variable("NCCL_IB_ADDR_FAMILY", "AF_INET6",
                   "its RoCE v2 ports have IPv6 addresses only"));
      return;
    }
    plan.warning =
        "some RoCE ports have IPv4 addresses and some IPv6 only; NCCL uses one "
        "address family for all; give every port an address of one family";
    return;
  }
  if (indices.size() == 1) {
    const std::string why =
        ChoosesGid(nccl)
            ? "its peers do not reach the interface of the first RoCE v2 "
              "address, which NCCL would use"
            : absl::StrCat("RoCE v2 has this GID index here; NCCL ",
                           nccl.empty() ? "before 2.21" : nccl, " uses 0");
    plan.variables.push_back(Variable(
        "NCCL_IB_GID_INDEX", absl::StrCat(indices.begin()->first), why));
    return;
  }
  std::vector<std::string> found;
  for (const auto& [index, port] : indices) {
    if (found.size() == kPortsNamedMax) break;
    found.push_back(absl::StrCat(index, " (", port, ")"));
  }
  plan.warning = absl::StrCat(
      "RoCE v2 ", first ? "" : "that peers reach ",
      "has different GID indices on its ports: ", absl::StrJoin(found, ", "),
      first ? "; NCCL before 2.21 uses one index for all; use a newer "
              "NCCL"
            : "; NCCL uses one index for all; make peers reach the "
              "first RoCE v2 address of every port");
}

// The nodes share no fabric. So NCCL must use sockets on all of them; otherwise
// some nodes would wait for others on a device that those do not have.
std::vector<FabricPorts> WithoutFabric(const std::vector<FabricNode>& nodes) {
  std::vector<FabricPorts> plan(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& ports = nodes[i].facts->infiniband();
    if (std::none_of(ports.begin(), ports.end(), IsActive)) continue;
    plan[i].variables.push_back(
        Variable("NCCL_IB_DISABLE", "1",
                 "not every node has an active RDMA port of one link layer"));
  }
  return plan;
}

// Why a node's ports are unknown. Null: they are known.
const v1::MissingFact* WhyPortsUnknown(const v1::Facts& facts) {
  const auto missing = std::find_if(
      facts.missing().begin(), facts.missing().end(),
      [](const v1::MissingFact& one) { return one.fact() == "infiniband"; });
  return missing == facts.missing().end() ? nullptr : &*missing;
}

// Plans the nodes whose ports are known.
std::vector<FabricPorts> PlanKnown(const std::vector<FabricNode>& nodes) {
  std::vector<std::map<PortKind, std::vector<int>>> usable;
  for (const FabricNode& node : nodes) usable.push_back(UsableByKind(node));
  const std::optional<PortKind> kind = SharedKind(usable);
  if (!kind.has_value()) return WithoutFabric(nodes);
  std::vector<FabricPorts> plan(nodes.size());
  const std::vector<std::vector<int>> rails = RailsByPosition(nodes, *kind);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!rails.empty()) {
      plan[i].rails = rails[i];
    } else {
      for (const auto& [of, ports] : usable[i]) {
        if (of.first != kind->first) continue;
        if (kind->second != 0 && of.second != kind->second) continue;
        plan[i].rails.insert(plan[i].rails.end(), ports.begin(), ports.end());
      }
      std::sort(plan[i].rails.begin(), plan[i].rails.end());
    }
    ChoosePorts(nodes[i], *kind, plan[i]);
    if (kind->first == kEthernet) ChooseGid(nodes[i], plan[i]);
  }
  return plan;
}

std::vector<FabricPorts> PlanReached(const std::vector<FabricNode>& nodes) {
  std::vector<FabricNode> known;
  for (const FabricNode& node : nodes) {
    if (KnowsPorts(*node.facts)) known.push_back(node);
  }
  std::vector<FabricPorts> plan(nodes.size());
  // One known node alone cannot be compared with others.
  if (known.size() < std::min<size_t>(nodes.size(), 2)) return plan;
  std::vector<FabricPorts> planned = PlanKnown(known);
  const bool fabric =
      std::any_of(planned.begin(), planned.end(),
                  [](const FabricPorts& one) { return !one.rails.empty(); });
  auto next = planned.begin();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const v1::MissingFact* unknown = WhyPortsUnknown(*nodes[i].facts);
    if (unknown == nullptr) {
      plan[i] = std::move(*next++);
    } else if (fabric) {
      plan[i].warning = absl::StrCat(
          "the other nodes use RDMA, but the RDMA ports of this node are not "
          "known: ",
          unknown->reason(), "; `rollcall doctor` on it may say more");
    }
  }
  return plan;
}

}  // namespace

bool KnowsPorts(const v1::Facts& facts) {
  return WhyPortsUnknown(facts) == nullptr;
}

bool IsActive(const v1::InfinibandPort& port) {
  return port.state() == "ACTIVE" && port.unusable().empty() &&
         (port.link_layer() == kInfiniband || port.link_layer() == kEthernet);
}

std::string NvlinkDomain(const v1::Facts& facts) {
  if (facts.gpus().empty()) return "";
  const std::string& domain = facts.gpus(0).nvlink_domain();
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (gpu.nvlink_domain() != domain) return "";
  }
  return domain;
}

const v1::Gid* PeerGid(const v1::InfinibandPort& port,
                       const std::set<std::string>& unreached) {
  if (port.link_layer() != kEthernet) {
    return port.gids().empty() ? nullptr : &port.gids(0);
  }
  const v1::Gid* ipv6 = nullptr;
  for (const v1::Gid& gid : port.gids()) {
    if (gid.type() != kRoceV2) continue;
    const std::string& interface = InterfaceOf(port, gid);
    if (!interface.empty() && unreached.contains(interface)) continue;
    if (IsMappedIpv4(gid)) return &gid;
    if (ipv6 == nullptr && !IsLinkLocal(gid)) ipv6 = &gid;
  }
  return ipv6;
}

std::vector<FabricPorts> PlanFabric(const std::vector<FabricNode>& nodes) {
  std::vector<FabricPorts> plan = PlanReached(nodes);
  const bool none =
      std::all_of(plan.begin(), plan.end(),
                  [](const FabricPorts& ports) { return ports.rails.empty(); });
  const bool unreached = std::any_of(
      nodes.begin(), nodes.end(),
      [](const FabricNode& node) { return !node.unreached.empty(); });
  if (!none || !unreached) return plan;
  // Probes use TCP, which a fabric that is only for RDMA may not carry. So the
  // plan is made again as if all interfaces were reached.
  std::vector<FabricNode> all = nodes;
  for (FabricNode& node : all) node.unreached.clear();
  plan = PlanReached(all);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool unreached_rail = std::any_of(
        plan[i].rails.begin(), plan[i].rails.end(), [&](const int rail) {
          return !Flaw(nodes[i], nodes[i].facts->infiniband(rail)).empty();
        });
    if (!unreached_rail) continue;
    plan[i].warning = absl::StrCat(
        "other nodes do not reach its RDMA ports by TCP; if NCCL fails, set "
        "NCCL_IB_DISABLE=1, or repair the network",
        plan[i].warning.empty() ? "" : "; ", plan[i].warning);
  }
  return plan;
}

}  // namespace rollcall
