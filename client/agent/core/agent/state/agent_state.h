// AgentState: what an agent remembers between two events, and what can be read
// off it without changing it.
//
// Agent owns one. The functions in acts/ and handlers/ read and change it; they
// have no state of their own. It decides nothing: a decision that has memory is
// a field of its own type, with its rule.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_AGENT_STATE_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_AGENT_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent/state/attendance.h"
#include "client/agent/core/agent/state/departure.h"
#include "client/agent/core/agent/state/fact_change_queue.h"
#include "client/agent/core/agent/state/generation_answer.h"
#include "client/agent/core/agent/state/leave_request.h"
#include "client/agent/core/agent/state/node_notices.h"
#include "client/agent/core/agent/state/own_credential.h"
#include "client/agent/core/agent/state/rank_process.h"
#include "client/agent/core/agent/state/world_change.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/core/node_exchanges.h"
#include "client/agent/core/node_store.h"
#include "client/agent/core/rank_starts.h"
#include "client/agent/core/redial.h"
#include "client/agent/core/setup.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct AgentState {
  // A generation from the start of its ranks to its end.
  struct Running {
    uint64_t generation = 0;
    uint32_t ranks = 0;
    uint32_t first_rank = 0;
    std::string world_bytes;
    std::string world_commit_bytes;
    std::string proof;
    std::vector<v1::RankExited> exits;
    uint64_t step = 0;
    uint64_t saved = 0;
    std::optional<v1::Pace> pace;  // The pace of rank 0, if rank 0 runs here.
  };

  AgentState(const v1::Hello& hello, absl::Duration join_timeout,
             const Limits& limits, absl::Time now, int preempt_signal,
             bool attach, uint32_t setup_retries);

  // The agent has been in a committed world.
  bool HasRun() const { return running.has_value() || ended_generation > 0; }
  // No rank is left here except those that wait for a world.
  bool Settled() const;
  // With `attach`: no process has attached for this rank yet.
  bool Awaited(const RankProcess& rank) const {
    return attach && !rank.linked && !rank.ended;
  }
  // The process of this local rank that was started for generation `born`;
  // null: there is none.
  RankProcess* Find(uint64_t born, uint32_t local_rank);
  // The process of this local rank, if `generation` runs and the process has
  // neither ended nor been told to stop; null otherwise.
  RankProcess* FindRunning(uint64_t generation, uint32_t local_rank);
  // Ranks of the running generation are expected to link or to publish a step
  // after their start.
  bool ExpectsStarts() const;
  // When the next rank counts as stalled, or no longer has time to answer.
  absl::Time NextHang() const;
  // When a leaving agent no longer waits for ranks that it did not start.
  absl::Time NextLeftAlone() const;
  // The latest time at which the next AgentTick is due.
  absl::Time NextDeadline() const;

  v1::Hello hello;
  Limits limits;
  absl::Time now;
  // The answer to the event that is being handled, in order.
  std::vector<AgentAction> actions;

  OwnCredential credential;
  Attendance attendance;
  Redial redial;

  uint64_t generation_seen = 0;
  // The proposed generation, until it starts.
  std::optional<WorldChange> change;
  std::optional<Running> running;
  // The last generation that has ended here; 0: none.
  uint64_t ended_generation = 0;
  GenerationAnswer answer;
  // Keyed by local rank.
  std::map<uint32_t, RankProcess> rank_processes;
  RankStarts starts;
  NodeNotices notices;
  NodeExchanges exchanges;
  NodeStore store;

  Setup setup;
  // The round of the paired check that this node works on; 0: none.
  uint64_t check_round = 0;
  FactChangeQueue fact_changes;

  const int preempt_signal;
  // The agent starts no rank and cannot kill one.
  const bool attach;
  LeaveRequest leave;
  Departure departure;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_AGENT_STATE_H_
