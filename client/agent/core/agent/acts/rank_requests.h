// Exchanges and store operations of linked ranks, on their way to the daemon
// and back.
//
// Free functions over AgentState; one thread. NodeExchanges and NodeStore
// decide.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_RANK_REQUESTS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_RANK_REQUESTS_H_

#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/core/node_store.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void On(AgentState& agent, const RankExchanged& exchanged);

void OnExchange(AgentState& agent, const v1::ExchangeOut& exchange);

void On(AgentState& agent, const RankAsksStore& asks);

void On(AgentState& agent, const StoreCancelled& gave_up);

// Sends what the store decided to the daemon and to the ranks.
void SendStoreOutcome(AgentState& agent, NodeStore::Outcome outcome);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_RANK_REQUESTS_H_
