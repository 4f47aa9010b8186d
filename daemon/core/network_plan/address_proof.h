// AddressProof: which addresses of the nodes of one plan are proven.
//
// An address is proven if more than half of the node's voters got the node's
// own answer there. The voters are the probers that were drawn for the node and
// are nodes of the plan; if the plan has members of the running world, only
// these, so that spares cannot outvote members. An address is also proven if
// the node connects from it and has it on an interface, and no other machine
// does both (otherwise several machines are behind one NAT). The launcher's
// agent needs no proof if no node was selected to probe it. Pure.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ADDRESS_PROOF_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ADDRESS_PROOF_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/network_plan/plan_node.h"

namespace rollcall {

class AddressProof {
 public:
  // It refers to the names in `nodes`, so `nodes` must outlive it.
  explicit AddressProof(const std::vector<PlanNode>& nodes);

  // Requires that `node` is one of the nodes and `usable` one of its usable
  // addresses.
  bool Proves(const PlanNode& node, const UsableAddress& usable) const;
  // How many voters reached the node at `address`.
  size_t Votes(const PlanNode& node, const std::string& address) const;

 private:
  // The names of the voters, for all nodes.
  std::set<std::string_view> voters_;
  // Addresses (as bytes) that a node both connects from and has on an
  // interface, each with the machines of the nodes for which that is true.
  std::map<std::string, std::set<std::string>> observed_;
};

// The machine and network namespace of a node, for comparison.
std::string MachineOf(const v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ADDRESS_PROOF_H_
