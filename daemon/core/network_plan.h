// The network plan: which address of each node its peers use, and what NCCL
// has to be told on it.
//
// Pure: from facts and from what the daemon saw of each connection. It probes
// nothing; what probes find comes in with later facts.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct PlanNode {
  std::string node;
  const v1::Facts* facts;
  // Where its connection to the daemon comes from.
  std::string observed_address;
};

struct PlannedNode {
  std::string address;
  std::vector<v1::PlannedVariable> variables;
  // Addresses that it claims and that were seen to be another's.
  std::set<std::string> ignored;
};

// `node` claims an address by which `owner`, a node on another machine, was
// seen to connect.
struct IgnoredClaim {
  std::string node;
  std::string address;
  std::string owner;

  bool operator==(const IgnoredClaim&) const = default;
};

struct NetworkPlan {
  // All nodes are on one machine, in one network namespace.
  bool one_machine = false;
  // In the order of the input.
  std::vector<PlannedNode> nodes;
  // At most kIgnoredClaimsMax; all are in their nodes' `ignored`.
  std::vector<IgnoredClaim> ignored;
};

inline constexpr size_t kIgnoredClaimsMax = 8;

// Interfaces that only exist inside one machine: docker0, br-<hex>, virbr0,
// cni0, veth*, flannel*, cali*, podman*, lxc*, kube-*.
bool IsLocalBridge(std::string_view interface);

// Loopback, link-local, unspecified or multicast: no peer can use it.
bool IsUnusable(std::string_view address);

// Picks one address per node: the platform's word first, else one in a subnet
// that all nodes share, else the one its connection to the daemon comes from,
// else its first usable one, IPv4 before IPv6. A world wholly on one machine
// uses 127.0.0.1.
//
// An address that is on a node's interface and that its connection comes from
// is that node's: claims of it by other machines are ignored. Of other
// addresses that several machines claim none is used, unless one node has no
// other: that one keeps them. FAILED_PRECONDITION: nodes without a usable
// address, named with what they have; `without`, where given, gets their names.
absl::StatusOr<NetworkPlan> PlanNetwork(
    const std::vector<PlanNode>& nodes,
    std::vector<std::string>* without = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_H_
