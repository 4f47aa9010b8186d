// The start of a committed world on this node.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WORLD_START_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WORLD_START_H_

#include "client/agent/core/agent/state/agent_state.h"

namespace rollcall {

// Starts the committed world once no rank of an earlier one is left.
void StartIfSettled(AgentState& agent);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WORLD_START_H_
