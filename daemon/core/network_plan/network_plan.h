// The network plan: which address of each node its peers use, and what NCCL
// has to be told on it.
//
// Pure: from facts, from where each connection to the daemon comes from, and
// from what nodes found when they probed each other (see probing.h). RDMA ports
// are fabric.h's.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NETWORK_PLAN_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NETWORK_PLAN_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/network_plan/probing.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct PlanNode {
  std::string node;
  const v1::Facts* facts;
  // Where its connection to the daemon comes from.
  std::string observed_address;
  // The agent of the launcher, on the daemon's own machine.
  bool launcher = false;
  // What its probers found; null: no node was selected to probe it.
  const std::map<std::string, ProbeReport>* probed = nullptr;
  // It is in the world that runs: where two nodes cannot connect, the other one
  // is left out.
  bool stays = false;
};

struct PlannedNode {
  std::string address;
  // The interface that has it; empty: none of the node's own.
  std::string interface;
  // All that are proven, in the node's own order.
  std::vector<std::string> addresses;
  // Interfaces that were probed and where nothing is proven.
  std::set<std::string> unreached;
  // Indices into Facts.infiniband of the ports of the fabric, by rail.
  std::vector<int> rails;
  std::vector<v1::PlannedVariable> variables;
  // What no variable can mend, and interfaces that peers do not reach; empty:
  // nothing.
  std::string warning;
};

struct NetworkPlan {
  // All nodes are on one machine, in one network namespace.
  bool one_machine = false;
  // In the order of the input.
  std::vector<PlannedNode> nodes;
};

// Interfaces that only exist inside one machine: docker0, br-<12 hex digits>
// (Docker's), virbr0,
// cni0, veth*, flannel*, cali*, podman*, lxc*, kube-*.
bool IsLocalBridge(std::string_view interface);

// Loopback, link-local, unspecified or multicast: no peer can use it.
bool IsUnusable(std::string_view address);

// Addresses of a node that peers might reach, the likeliest first: the
// platform's word, that of its connection to the daemon, those of interfaces
// with a default route, the others; IPv4 before IPv6. Not proven.
std::vector<std::string> CandidateAddresses(const PlanNode& node);

// All of them are on one machine, in one network namespace. One node alone is.
bool IsOneMachine(const std::vector<PlanNode>& nodes);

// Picks one address per node: reached by most probers, then the platform's
// word, then in a subnet that all nodes share, then that of its connection to
// the daemon, IPv4 before IPv6. A world wholly on one machine uses 127.0.0.1.
//
// Only a proven address counts: more than half of the probers that were drawn
// for the node got the node's own answer there (probers of the plan, and of the
// world that runs where there is one); or the node connects from it,
// has it on an interface, and no other machine does both. The launcher's agent
// needs no proof if no node was selected to probe it.
//
// FAILED_PRECONDITION: nodes without such an address, named with what they
// have; or nodes that cannot reach each other, by pairs. `without`, where
// given, gets the names of nodes without which a plan may succeed.
absl::StatusOr<NetworkPlan> PlanNetwork(
    const std::vector<PlanNode>& nodes,
    std::vector<std::string>* without = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NETWORK_PLAN_H_
