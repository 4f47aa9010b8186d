// What happens to ranks: they attach, make progress, wait for a world and end.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_RANK_EVENTS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_RANK_EVENTS_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"

namespace rollcall {

void On(AgentState& agent, const RankAttended& attended);

void On(AgentState& agent, const RankUnlinked& unlinked);

void On(AgentState& agent, const RankDoubled& doubled);

void On(AgentState& agent, const RankWaits& waits);

void On(AgentState& agent, const RankEnded& ended);

void On(AgentState& agent, const RanksGone& gone);

void On(AgentState& agent, const RankProgressed& progressed);

void On(AgentState& agent, const RankSaved& saved);

void On(AgentState& agent, const SignalCame& came);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_HANDLERS_RANK_EVENTS_H_
