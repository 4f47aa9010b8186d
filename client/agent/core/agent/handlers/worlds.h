// What the daemon says of worlds, from their proposal to their end, and what
// the preparation on this node says.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_WORLDS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_WORLDS_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void OnProposal(AgentState& agent, const v1::Proposal& proposal);

void On(AgentState& agent, const PreparationDone& done);

void On(AgentState& agent, const PreparationFailed& failed);

void OnCommit(AgentState& agent, const v1::Commit& commit);

void OnAbort(AgentState& agent, const v1::Abort& abort);

void OnWaiting(AgentState& agent, const v1::Waiting& waiting);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_WORLDS_H_
