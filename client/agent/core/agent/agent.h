// Agent: what one node does in a run, as a value that takes events (Step).
//
// The counterpart of daemon/core/job: it attends, prepares for proposals,
// starts and stops ranks, and ends. It does no I/O, reads no clock, draws no
// random number and starts no thread. The shell (client/agent/session) passes
// in what happened and carries out the returned actions in order.
//
// Agent knows which function takes which event and in which order a tick asks;
// the rest is in state/, acts/ and handlers/ (../README.md).
//
// Thread rule: one thread at a time.
//
// Invariants:
//   1. It never acts on a generation older than one that it has seen.
//   2. It sends Prepared(g) and Stopped(g) only when the only ranks left here
//      are linked ones that have torn their communicator down and wait.
//   3. It starts the ranks of g, and gives the world of g to ranks that wait,
//      once: after Commit(g), and only if it has sent Prepared(g).
//   4. It runs the set-up command before it may get a seat, and not again.
//   5. Exit is the last action, and comes only when no rank and no process of
//      the set-up command is left. A rank that the agent did not start delays
//      it by its grace period at most.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_AGENT_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_AGENT_H_

#include <csignal>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Agent {
 public:
  // `hello`: everything that does not change between streams (job, node, token,
  // ranks, settings, launcher, incarnation); the shell adds the current facts.
  // `join_timeout`: how long to redial a daemon that has never welcomed this
  // agent. `preempt_signal`: the signal that announces a notice to a plain
  // rank. `attach`: ranks are processes that others start (--attach).
  // `setup_retries`: how often the set-up command, which Hello.setting_up says
  // there is, may be run again.
  Agent(const v1::Hello& hello, absl::Duration join_timeout,
        const Limits& limits, absl::Time now, int preempt_signal = SIGTERM,
        bool attach = false, uint32_t setup_retries = 0);

  // Returns the first actions: dial.
  std::vector<AgentAction> Start();

  // Applies one event. `now` never goes backwards. Never blocks, never fails.
  std::vector<AgentAction> Step(const AgentEvent& event, absl::Time now);

  // The latest time at which the next AgentTick is due.
  absl::Time NextDeadline() const { return state_.NextDeadline(); }

 private:
  AgentState state_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_AGENT_H_
