#include "client/agent/core/agent/acts/rank_requests.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/node_exchanges.h"

namespace rollcall {

void On(AgentState& agent, const RankExchanged& exchanged) {
  const uint64_t generation = exchanged.generation;
  if (!agent.running.has_value() || generation != agent.running->generation) {
    agent.actions.push_back(FailRequests{
        generation, absl::StrCat("generation ", generation, " has ended")});
    return;
  }
  NodeExchanges::Outcome outcome = agent.exchanges.Take(exchanged);
  if (auto* answer = std::get_if<AnswerExchange>(&outcome)) {
    agent.actions.push_back(std::move(*answer));
  } else if (auto* values = std::get_if<v1::ExchangeIn>(&outcome)) {
    v1::AgentMessage message;
    *message.mutable_exchange() = std::move(*values);
    Tell(agent, std::move(message));
  }
}

void OnExchange(AgentState& agent, const v1::ExchangeOut& exchange) {
  std::optional<AnswerExchange> answer = agent.exchanges.Answer(exchange);
  if (answer.has_value()) agent.actions.push_back(*std::move(answer));
}

void On(AgentState& agent, const RankAsksStore& asks) {
  if (!agent.running.has_value() ||
      asks.generation != agent.running->generation) {
    agent.actions.push_back(FailRequests{
        asks.generation,
        absl::StrCat("generation ", asks.generation, " has ended")});
    return;
  }
  SendStoreOutcome(agent, agent.store.Take(asks));
}

void On(AgentState& agent, const StoreCancelled& gave_up) {
  SendStoreOutcome(agent, agent.store.Cancel(gave_up.tickets));
}

void SendStoreOutcome(AgentState& agent, NodeStore::Outcome outcome) {
  for (v1::StoreIn& in : outcome.said) {
    v1::AgentMessage message;
    *message.mutable_store() = std::move(in);
    Tell(agent, std::move(message));
  }
  for (AnswerStore& answer : outcome.answers) {
    agent.actions.push_back(std::move(answer));
  }
}

}  // namespace rollcall
