// What an agent says: messages to its daemon and reports to its user.
//
// Free functions over AgentState; they add to its actions. One thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_TELLING_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_TELLING_H_

#include <optional>
#include <string>

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Sends a message to the daemon. Without a stream the message is dropped: what
// must not be lost is in the next Hello, or is sent again after the next
// Welcome (owed_messages.h).
void Tell(AgentState& agent, v1::AgentMessage message);

void Tell(AgentState& agent, Report::Kind kind, std::string text);

// Reports `news`, if there is any.
void Tell(AgentState& agent, std::optional<Report> news);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_TELLING_H_
