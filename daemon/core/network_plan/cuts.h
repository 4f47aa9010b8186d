// Cuts: pairs of nodes that were probed and could not connect, and which nodes
// to leave out so that no such pair is left. Pure.
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

// One direction of a pair of nodes that cannot connect, by positions.
struct Cut {
  size_t prober;
  size_t target;
};

// Cuts at the target's entry of `addresses` (one per node), or, if that is
// empty, at every address.
std::vector<Cut> CutsOf(const std::vector<PlanNode>& nodes,
                        const std::vector<std::string>& addresses);

// A small set of nodes whose removal leaves no cut, chosen greedily: first the
// node with the most cuts; of two with as many, the one that is the prober in
// more of them. Nodes of the running world are chosen later, and the launcher's
// agent last, since it cannot be left out.
std::vector<std::string> WithoutCuts(const std::vector<PlanNode>& nodes,
                                     const std::vector<Cut>& cuts);

// Each node that has cuts at every address, with the nodes at the other end.
std::map<std::string, std::set<std::string>> CutPartners(
    const std::vector<PlanNode>& nodes);

// FAILED_PRECONDITION: names the pairs, and the likely cause. `cuts`: at least
// one.
absl::Status Unreachable(const std::vector<PlanNode>& nodes,
                         const std::vector<Cut>& cuts);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_CUTS_H_
