// What the node found out: checks, probes and changed facts, for the daemon.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_NODE_ANSWERS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_NODE_ANSWERS_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"

namespace rollcall {

void On(AgentState& agent, const ChecksDone& done);

void On(AgentState& agent, const ProbeDone& done);

// The daemon takes the answer to a round on the stream of its request only.
void On(AgentState& agent, const GroupCheckSaid& said);

void On(AgentState& agent, const FactChanged& changed);

void On(AgentState& agent, const FactWatchEnded& ended);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_NODE_ANSWERS_H_
