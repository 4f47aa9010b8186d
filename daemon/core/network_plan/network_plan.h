// The network plan: which address of each node its peers use, and the NCCL
// settings of each node.
//
// Pure. Its inputs are facts, the source address of each node's connection to
// the daemon, and the results of the nodes' probes of each other (see
// probing.h). For RDMA ports see fabric.h.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NETWORK_PLAN_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NETWORK_PLAN_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/network_plan/plan_node.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct PlannedNode {
  std::string address;
  // The interface that has `address`. Empty: no interface of the node has it.
  std::string interface;
  // All proven addresses, in the node's own order.
  std::vector<std::string> addresses;
  // Interfaces that were probed and have no proven address.
  std::set<std::string> unreached;
  // Indices into Facts.infiniband of the fabric's ports, in the order of the
  // rails.
  std::vector<int> rails;
  std::vector<v1::PlannedVariable> variables;
  // Problems that no variable can solve, and interfaces that peers do not
  // reach. Empty: none.
  std::string warning;
};

struct NetworkPlan {
  // All nodes are on one machine, in one network namespace.
  bool one_machine = false;
  // One for each node, in the order of the input.
  std::vector<PlannedNode> nodes;
};

// Whether all nodes are on one machine, in one network namespace. True for a
// single node.
bool IsOneMachine(const std::vector<PlanNode>& nodes);

// Picks one proven address for each node (see address_proof.h). It prefers, in
// this order: the address that most probers reached; the address that the
// platform names; an address in a subnet that all nodes share; the source
// address of the node's connection to the daemon; IPv4 before IPv6. A world
// that is on one machine uses 127.0.0.1.
//
// FAILED_PRECONDITION: some nodes have no proven address (the message names the
// nodes and their addresses), or some pairs of nodes cannot reach each other.
// Then `without`, if not null, gets nodes whose removal may make a plan
// possible.
absl::StatusOr<NetworkPlan> PlanNetwork(
    const std::vector<PlanNode>& nodes,
    std::vector<std::string>* without = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NETWORK_PLAN_H_
