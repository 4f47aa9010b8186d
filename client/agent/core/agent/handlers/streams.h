// The stream to the daemon: Hello, Welcome, and what its refusals mean.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_STREAMS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_STREAMS_H_

#include <string>

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void On(AgentState& agent, const StreamUp&);

void On(AgentState& agent, const StreamDown& down);

// Keeps the credential that the daemon issued.
void TakeCredential(AgentState& agent, const std::string& credential);

void OnWelcome(AgentState& agent, const v1::Welcome& welcome);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_STREAMS_H_
