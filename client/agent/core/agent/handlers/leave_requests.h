// Signals, ranks and the daemon ask the agent to leave.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_LEAVE_REQUESTS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_LEAVE_REQUESTS_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void On(AgentState& agent, const LeaveAsked& leave);

void On(AgentState& agent, const RankAskedToLeave& asked);

void OnEnd(AgentState& agent, const v1::End& end);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_LEAVE_REQUESTS_H_
