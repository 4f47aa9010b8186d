// PlanNode: the facts about a node that the network plan uses, and the
// addresses by which its peers might reach it. None is proven yet (see
// address_proof.h). Pure.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PLAN_NODE_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PLAN_NODE_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/network_plan/probing/probing.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A message of the plan names at most this many nodes, pairs or addresses.
inline constexpr size_t kPlanNamedMax = 8;

struct PlanNode {
  std::string node;
  const v1::Facts* facts;
  // The source address of the node's connection to the daemon.
  std::string observed_address;
  // The node runs the launcher's agent, on the daemon's own machine.
  bool launcher = false;
  // What the node's probers found; null: no node was selected to probe it.
  const std::map<std::string, ProbeReport>* probed = nullptr;
  // The node is in the running world. If it and another node cannot connect,
  // the other node is left out.
  bool stays = false;
};

// An address at which peers might reach the node.
struct UsableAddress {
  std::string address;
  // Empty: no interface of the node has it.
  std::string interface;
  // The subnet's family, prefix length and bits, for comparison.
  std::string subnet;
  bool ipv4;
  bool default_route;
};

// Interfaces that only exist inside one machine: docker*, br-<12 hex digits>
// (Docker's), virbr*, cni*, veth*, flannel*, cali*, podman*, lxc*, lxdbr*,
// kube-*, cilium*.
bool IsLocalBridge(std::string_view interface);

// Loopback, link-local, unspecified or multicast: no peer can use it.
bool IsUnusable(std::string_view address);

// The address as its 4 or 16 bytes; nullopt: not an address.
std::optional<std::string> AddressBytes(std::string_view text);

// Whether one of the node's interfaces has this address.
bool HasInterfaceAt(const PlanNode& node, std::string_view address);

// The node's usable addresses, in its own order.
std::vector<UsableAddress> UsableAddresses(const PlanNode& node);

// The addresses at which peers might reach the node, likeliest first: the one
// that the platform names, the source address of its connection to the daemon,
// those of interfaces with a default route, then the others; IPv4 before IPv6.
// Not proven.
std::vector<std::string> CandidateAddresses(const PlanNode& node);

// Whether the prober reached its target at this address.
bool IsReached(const ProbeReport& report, const std::string& address);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PLAN_NODE_H_
