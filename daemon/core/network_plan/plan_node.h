// PlanNode: a node as the network plan sees it, and the addresses by which its
// peers might reach it. Nothing here is proven (see address_proof.h). Pure.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PLAN_NODE_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PLAN_NODE_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/network_plan/probing.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Most nodes, pairs or addresses that one message of the plan names.
inline constexpr size_t kPlanNamedMax = 8;

struct PlanNode {
  std::string node;
  const v1::Facts* facts;
  // The source address of its connection to the daemon.
  std::string observed_address;
  // The agent of the launcher, on the daemon's own machine.
  bool launcher = false;
  // What its probers found; null: no node was selected to probe it.
  const std::map<std::string, ProbeReport>* probed = nullptr;
  // It is in the running world: if it and another node cannot connect, the
  // other one is left out.
  bool stays = false;
};

// An address that peers might reach.
struct UsableAddress {
  std::string address;
  // Empty: no interface of the node has it.
  std::string interface;
  // Family, prefix length and bits of the subnet, for comparison.
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

// In the node's own order.
std::vector<UsableAddress> UsableAddresses(const PlanNode& node);

// Addresses of a node that peers might reach, the likeliest first: the one that
// the platform names, the source address of its connection to the daemon, those
// of interfaces with a default route, the others; IPv4 before IPv6. Not proven.
std::vector<std::string> CandidateAddresses(const PlanNode& node);

// Whether the prober reached its target at this address.
bool IsReached(const ProbeReport& report, const std::string& address);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PLAN_NODE_H_
