#include "client/agent/core/agent/acts/departing.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/world_end.h"
#include "client/agent/core/agent_events.h"

namespace rollcall {
namespace {

// The job ends because the set-up command of another node failed: how long this
// one may take after SIGTERM.
constexpr absl::Duration kSetupElsewhereGrace = absl::Seconds(1);

}  // namespace

void Leave(AgentState& agent, int code, const std::string& reason,
           std::optional<v1::End> end) {
  const v1::ReasonCode why =
      end.has_value() ? end->code() : v1::REASON_CODE_UNSPECIFIED;
  if (!agent.departure.Leave(Exit{code, reason, std::move(end)})) return;
  agent.leave.WaitNoLonger();
  EndGroupCheck(agent);
  DropPreparation(agent);
  EndGeneration(agent, why, reason, Keep::kNobody);
  StopSetup(agent, why == v1::REASON_CODE_SETUP
                       ? std::min(agent.limits.stop_grace, kSetupElsewhereGrace)
                       : agent.limits.stop_grace);
}

void EndLinger(AgentState& agent) {
  if (!agent.departure.EndLinger()) return;
  const Exit& exit = agent.departure.exit();
  EndGeneration(agent, exit.end->code(), exit.reason, Keep::kNobody);
  StopSetup(agent, agent.limits.stop_grace);
}

void MaybeExit(AgentState& agent) {
  if (!agent.rank_processes.empty() || agent.setup.running() ||
      !agent.departure.TakeExit()) {
    return;
  }
  if (agent.departure.job_ended()) {
    v1::AgentMessage message;
    message.mutable_end_seen()->set_generation(agent.generation_seen);
    Tell(agent, std::move(message));
  }
  agent.actions.push_back(agent.departure.exit());
}

}  // namespace rollcall
