// The end on this node of what a generation needs: its preparation, its ranks,
// the paired check before it.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WORLD_END_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WORLD_END_H_

#include <string>

#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/state/agent_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Gives up the proposed world, if there is one.
void DropPreparation(AgentState& agent);

// Ends this node's part in a round of the paired check, if it works on one.
void EndGroupCheck(AgentState& agent);

// Ends the committed generation on this node, and stops all ranks that `keep`
// does not keep, even if no generation runs.
void EndGeneration(AgentState& agent, v1::ReasonCode code,
                   const std::string& reason, Keep keep);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WORLD_END_H_
