// Cuts: pairs of nodes in which one node probed the other and could not
// connect; and which nodes to leave out so that no such pair is left. Pure.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_CUTS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_CUTS_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/core/network_plan/plan_node.h"

namespace rollcall {

// One direction of a pair of nodes that cannot connect: indices into the nodes.
struct Cut {
  size_t prober;
  size_t target;
};

// The cuts at the target's entry of `addresses` (one per node). If `addresses`
// is empty: the targets that were reached at no address.
std::vector<Cut> CutsOf(const std::vector<PlanNode>& nodes,
                        const std::vector<std::string>& addresses);

// A small set of nodes whose removal leaves no cut. It is chosen greedily:
// first the node with the most cuts; of nodes with equally many, the one that
// is the prober in more of them. Nodes of the running world are chosen only
// after others, and the launcher's agent last, because it cannot be left out.
std::vector<std::string> WithoutCuts(const std::vector<PlanNode>& nodes,
                                     const std::vector<Cut>& cuts);

// Each node that has a cut at all addresses, with the nodes at the other end.
std::map<std::string, std::set<std::string>> CutPartners(
    const std::vector<PlanNode>& nodes);

// FAILED_PRECONDITION with the names of the pairs and the likely cause. `cuts`
// must not be empty.
absl::Status Unreachable(const std::vector<PlanNode>& nodes,
                         const std::vector<Cut>& cuts);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_CUTS_H_
