// The set-up command, which runs before the node gets a seat (--setup).
//
// Free functions over AgentState; one thread. Setup decides about tries and
// time limits.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_SETUP_TRIES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_SETUP_TRIES_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Starts the command if this daemon waits for it.
void MaybeBeginSetup(AgentState& agent, const v1::Welcome& welcome);

// Starts the next try or ends one whose time is over.
void AdvanceSetup(AgentState& agent);

void On(AgentState& agent, const SetupShellEnded& ended);

void On(AgentState& agent, const SetupGone& gone);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_SETUP_TRIES_H_
