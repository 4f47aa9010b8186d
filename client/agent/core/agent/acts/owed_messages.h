// Messages that the daemon is owed until it has heard them on the current
// stream: the answers about a generation, exits, the answer to a notice, the
// result of the set-up command, changes of facts, the request to leave.
//
// A function `...IfReady`, `...IfDue` or `...IfThere` checks whether its
// message is due and a daemon has welcomed the agent; for the others the caller
// does. All are called again after each Welcome. One thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_OWED_MESSAGES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_OWED_MESSAGES_H_

#include <cstdint>
#include <string>

#include "client/agent/core/agent/state/agent_state.h"

namespace rollcall {

// Prepared: this node can start the ranks of the proposed world.
void SayPreparedIfReady(AgentState& agent);

// The answer about the last generation: Refused, or Stopped once no rank of it
// runs here.
void SayAnswerIfDue(AgentState& agent);

// Refuses a proposal. The refusal is kept and repeated until the next proposal
// or abort.
void Refuse(AgentState& agent, uint64_t generation, const std::string& reason);

// Sends the exits again: a Hello does not contain them, and a restarted daemon
// does not know them.
void SayExits(AgentState& agent);

// NoticeSeen: all ranks have ended or stopped at the boundary.
void SayNoticeSeenIfThere(AgentState& agent);

// SetupEnded, to a daemon that waits for it.
void SaySetupEnded(AgentState& agent);

// The facts that have changed; they are dropped if the daemon is of an older
// version.
void SayFactChanges(AgentState& agent);

// Leaving: a signal asks this node to leave.
void SayLeaving(AgentState& agent);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_OWED_MESSAGES_H_
