// The network plan: which address of each node its peers use, and what NCCL
// has to be told on it.
//
// Pure: from facts and from what the daemon saw of each connection. It probes
// nothing; what probes find comes in with later facts.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_H_

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
};

struct NetworkPlan {
  // All nodes are on one machine, in one network namespace.
  bool one_machine = false;
  // In the order of the input.
  std::vector<PlannedNode> nodes;
};

// Interfaces that only exist inside one machine: docker0, br-<hex>, virbr0,
// cni0, veth*, flannel*, cali*, podman*, lxc*, kube-*.
bool IsLocalBridge(std::string_view interface);

// Loopback, link-local, unspecified or multicast: no peer can use it.
bool IsUnusable(std::string_view address);

// Picks one address per node: the platform's word first, else one in a subnet
// that all nodes share, else the one its connection to the daemon comes from,
// else its first usable one, IPv4 before IPv6. A world wholly on one machine
// uses 127.0.0.1. FAILED_PRECONDITION: nodes without a usable address, named
// with what they have.
absl::StatusOr<NetworkPlan> PlanNetwork(const std::vector<PlanNode>& nodes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_H_
