// AddressProof: which addresses of the nodes of one plan are proven.
//
// An address is proven if more than half of the probers that were drawn for the
// node got the node's own answer there (probers that are nodes of the plan; of
// these only members of the running world, if there are any, so that spares
// cannot outvote members). It is also proven if the node connects from it and
// has it on an interface, and no other machine does both: then several machines
// are behind one NAT. The launcher's agent needs no proof if no node was
// selected to probe it. Pure.
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
  // Refers to the names in `nodes`, which must outlive it.
  explicit AddressProof(const std::vector<PlanNode>& nodes);

  // `node` is one of the nodes, and `usable` one of its usable addresses.
  bool Proves(const PlanNode& node, const UsableAddress& usable) const;
  // How many probers that count reached the node at `address`.
  size_t Votes(const PlanNode& node, const std::string& address) const;

 private:
  // Names of the probers that count.
  std::set<std::string_view> voters_;
  // Addresses (as bytes) that a node connects from and has on an interface,
  // with the machines of these nodes.
  std::map<std::string, std::set<std::string>> observed_;
};

// The machine and network namespace of a node, for comparison.
std::string MachineOf(const v1::Facts& facts);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ADDRESS_PROOF_H_
