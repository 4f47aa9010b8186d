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
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent/state/rank_process.h"
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
  enum class Link {
    kDown,      // No stream; dials at redial.dial_at().
    kDialing,   // Dial was sent, or Hello awaits its Welcome.
    kAttending  // Welcomed.
  };

  // A generation from its Proposal to its Commit.
  struct Preparing {
    v1::World world;
    std::string world_bytes;
    uint32_t node_rank = 0;
    std::optional<v1::Prepared> done;
    bool said = false;
    // Prepared was sent at least once. `said` is reset when it must be sent
    // again.
    bool promised = false;
    // `world_commit` is set: committed, but a rank that waited has ended. The
    // start waits until the descendants of that rank are gone.
    std::string world_commit_bytes;
    std::string proof;
    std::optional<v1::WorldCommit> world_commit;
    // The latest notice that arrived between the Commit and the start.
    std::optional<v1::Notice> notice;
  };

  // A generation from its Commit to its end.
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

  // The latest notice for the running generation.
  struct Notice {
    uint64_t number = 0;
    // Plain ranks are killed at this time.
    absl::Time kill_at = absl::InfiniteFuture();
    bool over = false;  // The plain ranks were killed.
    bool said = false;  // NoticeSeen was sent.
  };

  // The credential that the daemon issued in Welcome or NewCredential.
  struct Credential {
    std::string bytes;         // Empty: none.
    uint64_t incarnation = 0;  // The one for which it was issued.
  };

  // The ended generation for which Stopped is to be sent once no rank is left
  // here except those that wait.
  struct ToSay {
    uint64_t generation = 0;  // 0: none.
    bool said = false;        // It was sent on this stream.
  };

  // The request that this node leaves.
  struct LeaveRequest {
    int signal = 0;  // 0: there was none.
    // A linked rank asked for it, and no signal has reached the agent yet.
    bool by_rank = false;
    // The agent waits until then for the daemon to act on the request.
    absl::Time until = absl::InfiniteFuture();
  };

  AgentState(const v1::Hello& hello, absl::Duration join_timeout,
             const Limits& limits, absl::Time now, int preempt_signal,
             bool attach, uint32_t setup_retries);

  // The stream is up and the daemon has welcomed the agent on it.
  bool Welcomed() const { return link == Link::kAttending; }
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
  // The job's set-up failed, and its agents stay for the time of --linger,
  // although no rank runs.
  bool LingersWithoutRanks() const {
    return linger_until != absl::InfiniteFuture() &&
           exit->end->code() == v1::REASON_CODE_SETUP;
  }
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

  Credential credential;

  Link link = Link::kDown;
  Redial redial;
  absl::Duration heartbeat;
  absl::Time next_heartbeat = absl::InfiniteFuture();

  uint64_t generation_seen = 0;
  std::optional<Preparing> preparing;
  // The refusal of the latest proposal, kept because the stream may have been
  // down.
  std::optional<v1::Refused> refused;
  std::optional<Running> running;
  // The last generation that has ended here; 0: none.
  uint64_t ended_generation = 0;
  // Keyed by local rank.
  std::map<uint32_t, RankProcess> rank_processes;
  RankStarts starts;
  std::optional<Notice> notice;
  // A notice named this node as one that leaves.
  bool drained = false;
  ToSay stopped;
  Setup setup;
  // The daemon awaits SetupEnded on this stream.
  bool owes_setup_ended = false;
  NodeExchanges exchanges;
  NodeStore store;
  // The round of the paired check that this node works on; 0: none.
  uint64_t check_round = 0;
  // Those that were not sent yet, oldest first; at most
  // Limits::fact_changes_per_node.
  std::deque<v1::FactChange> fact_changes;
  // Welcome.takes_fact_changes.
  bool takes_fact_changes = false;

  const int preempt_signal;
  // The agent starts no rank and cannot kill one.
  const bool attach;
  LeaveRequest leave;
  std::optional<Exit> exit;
  // The agent keeps the ranks and files of an ended job until then (linger).
  absl::Time linger_until = absl::InfiniteFuture();
  bool exited = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_AGENT_STATE_H_
