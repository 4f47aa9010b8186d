// Stopping ranks and the set-up command: who is told to stop, and with which
// grace period.
//
// Free functions over AgentState; one thread. A process is told again only if
// its grace period becomes shorter.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_STOPS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_STOPS_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"

namespace rollcall {

// Which ranks survive the end of a generation.
enum class Keep { kElastic, kNobody };

// Stops the ranks for which `which` is true.
void StopThose(AgentState& agent, absl::Duration grace,
               const std::function<bool(const RankProcess&)>& which);

// Stops all ranks except those that are kept, which are to answer the abort
// within `grace`.
void Stop(AgentState& agent, absl::Duration grace, Keep keep = Keep::kNobody);

// Kills ranks that have not answered an abort in time.
void StopWhoDidNotAnswer(AgentState& agent);

// Kills plain ranks that still run at the deadline of a notice.
void KillWhoseNoticeIsOver(AgentState& agent);

// Kills the rank that the daemon blames. It does not respond, so it gets no
// grace period.
void KillTheHung(AgentState& agent, uint32_t local_rank);

// At the end of the agent there is no later world with these ranks, so it does
// not wait for them. Between two worlds it waits.
void LeaveTheUnendedAlone(AgentState& agent);

// Stops the set-up command; no try follows.
void StopSetup(AgentState& agent, absl::Duration grace);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_STOPS_H_
