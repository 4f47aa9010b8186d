// The settings that make NCCL and Gloo use the interface and the address family
// by which a node's peers reach it. Pure.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_SOCKET_SETTINGS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_SOCKET_SETTINGS_H_

#include <vector>

#include "daemon/core/network_plan/plan_node.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Returns none if no interface of the node has the chosen address.
std::vector<v1::PlannedVariable> SocketSettings(const v1::Facts& facts,
                                                const UsableAddress& chosen);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_SOCKET_SETTINGS_H_
