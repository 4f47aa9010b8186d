// Nodes of a job, for tests of parts of the core that read Membership.
#ifndef ROLLCALL_TESTS_UNIT_CORE_NODES_H_
#define ROLLCALL_TESTS_UNIT_CORE_NODES_H_

#include <string>

#include "daemon/core/membership/membership.h"

namespace rollcall {

// A node that attends. `membership` must not have it yet.
inline Node& AddNode(Membership& membership, const std::string& name) {
  Node& node = membership.Add(name);
  node.hello.set_node(name);
  node.hello.set_incarnation(1);
  membership.Connect(node, membership.nodes().size());
  return node;
}

// A node that attends and is a member of the current world.
inline Node& AddMember(Membership& membership, const std::string& name,
                       int node_rank) {
  Node& node = AddNode(membership, name);
  node.node_rank = node_rank;
  node.seat = node_rank;
  return node;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_NODES_H_
