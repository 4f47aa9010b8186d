// Notices: how the ranks learn of them, and that they have stopped for one.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_RANK_NOTICES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_RANK_NOTICES_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void OnNotice(AgentState& agent, const v1::Notice& notice);

void On(AgentState& agent, const RankAtBoundary& at);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_RANK_NOTICES_H_
