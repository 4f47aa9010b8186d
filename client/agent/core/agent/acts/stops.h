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
void KillUnanswered(AgentState& agent);

// Kills ranks that are not elastic and still run at the deadline of a notice.
void KillAtNoticeDeadline(AgentState& agent);

// Kills the rank that the daemon blames. It does not respond, so it gets no
// grace period.
void KillTheHung(AgentState& agent, uint32_t local_rank);

// At the end of the agent: forgets attached ranks, which it did not start, that
// were told to stop and are still connected when their grace period is over.
// There is no later world with them. Between two worlds the agent waits for
// them.
void LeaveAttachedRanksAlone(AgentState& agent);

// Stops the set-up command; no try follows.
void StopSetup(AgentState& agent, absl::Duration grace);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_STOPS_H_
