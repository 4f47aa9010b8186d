#include "client/agent/core/agent/handlers/node_answers.h"

#include <cstdint>
#include <utility>

#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/telling.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void On(AgentState& agent, const ChecksDone& done) {
  v1::AgentMessage message;
  *message.mutable_check_report() = done.report;
  Tell(agent, std::move(message));
}

void On(AgentState& agent, const ProbeDone& done) {
  v1::AgentMessage message;
  *message.mutable_probed() = done.probed;
  Tell(agent, std::move(message));
}

void On(AgentState& agent, const GroupCheckSaid& said) {
  const v1::AgentMessage& m = said.message;
  const uint64_t round = m.has_group_checked() ? m.group_checked().round()
                                               : m.group_listening().round();
  if (round != agent.check_round || agent.check_round == 0) return;
  if (m.has_group_checked()) agent.check_round = 0;
  Tell(agent, m);
}

void On(AgentState& agent, const FactChanged& changed) {
  agent.fact_changes.Add(changed.change);
  SayFactChanges(agent);
}

void On(AgentState& agent, const FactWatchEnded& ended) {
  Tell(agent, Report::Kind::kWarning, ended.reason);
}

}  // namespace rollcall
