#include "client/agent/core/agent/acts/world_end.h"

#include <utility>

#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "client/agent/core/agent_events.h"

namespace rollcall {

void DropPreparation(AgentState& agent) {
  if (!agent.change.has_value()) return;
  agent.actions.push_back(Undo{agent.change->generation()});
  agent.change.reset();
}

void EndGroupCheck(AgentState& agent) {
  if (std::exchange(agent.check_round, 0) == 0) return;
  agent.actions.push_back(RunGroupCheck{});
}

void EndGeneration(AgentState& agent, v1::ReasonCode code,
                   const std::string& reason, Keep keep) {
  if (agent.running.has_value()) {
    agent.ended_generation = agent.running->generation;
    agent.actions.push_back(
        AbortRanks{agent.running->generation, code, reason});
    agent.running.reset();
    UnwatchAll(agent);
    agent.exchanges.End();
    agent.store.End();
  }
  Stop(agent, agent.limits.stop_grace, keep);
  agent.notices.End();
}

}  // namespace rollcall
