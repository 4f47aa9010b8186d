// The end of the agent: leaving, lingering and the last action.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_DEPARTING_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_DEPARTING_H_

#include <optional>
#include <string>

#include "client/agent/core/agent/state/agent_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Stops all ranks, then exits, if Departure takes this reason.
void Leave(AgentState& agent, int code, const std::string& reason,
           std::optional<v1::End> end = std::nullopt);

// Stops the ranks that were kept, with their grace period.
void EndLinger(AgentState& agent);

// Exits once the agent leaves and nothing of it is left.
void MaybeExit(AgentState& agent);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_DEPARTING_H_
