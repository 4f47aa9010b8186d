#include "client/agent/core/agent/acts/world_start.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/acts/rank_notices.h"
#include "client/agent/core/agent/acts/rank_requests.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "client/agent/core/agent_events.h"
#include "daemon/core/formation/world.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
namespace {

// The local rank that is the state source, if its process has ended since it
// waited. A new process in its place does not have the state.
std::optional<uint32_t> LostSource(const AgentState& agent) {
  const std::optional<uint32_t> source = agent.change->LocalSource();
  if (source.has_value() && agent.rank_processes.contains(*source)) {
    return std::nullopt;
  }
  return source;
}

// The daemon ends the generation when it hears this.
void SayLostSource(AgentState& agent, uint32_t local_rank) {
  v1::AgentMessage message;
  v1::RankExited& exited = *message.mutable_rank_exited();
  exited.set_generation(agent.change->generation());
  exited.set_local_rank(local_rank);
  exited.set_code(1);
  exited.set_stderr_tail("the state source ended before its state was sent");
  Tell(agent, std::move(message));
}

// Gives the world to the ranks that wait and starts the others.
StartRanks PlaceRanks(AgentState& agent, uint32_t ranks) {
  StartRanks start;
  for (uint32_t local = 0; local < ranks; ++local) {
    const auto [at, fresh] = agent.rank_processes.try_emplace(local);
    RankProcess& rank = at->second;
    if (fresh) {
      rank.born = agent.running->generation;
      rank.started_at = agent.now;
      WatchStart(agent, rank);
      start.fresh.push_back(local);
    } else {
      rank.waits.reset();
      rank.signalled = false;
      rank.step = 0;
      Watch(agent, local, rank);
      start.waiting.push_back({rank.born, local});
    }
  }
  return start;
}

}  // namespace

void StartIfSettled(AgentState& agent) {
  if (!agent.change.has_value() || !agent.change->committed() ||
      !agent.Settled()) {
    return;
  }
  if (const std::optional<uint32_t> lost = LostSource(agent)) {
    // If the agent redials, the daemon sends the commit again and gets this
    // answer again, until it ends the generation.
    agent.change->ForgetCommit();
    return SayLostSource(agent, *lost);
  }
  const uint32_t node_rank = agent.change->node_rank();
  const v1::Member me = agent.change->member();
  WorldChange::Committed change = std::move(*agent.change).Start();
  agent.change.reset();
  const uint64_t generation = change.world.generation();
  agent.running = AgentState::Running();
  agent.running->generation = generation;
  agent.running->ranks = agent.hello.ranks();
  agent.running->first_rank = me.first_rank();
  agent.running->world_bytes = std::move(change.world_bytes);
  agent.running->world_commit_bytes = std::move(change.world_commit_bytes);
  agent.running->proof = std::move(change.proof);
  agent.exchanges.Begin(generation, me.first_rank(), agent.hello.ranks(),
                        static_cast<int>(change.world.world_size()));
  SendStoreOutcome(agent, agent.store.Begin(generation));
  StartRanks start = PlaceRanks(agent, RanksStarted(me));
  Tell(agent, Report::Kind::kState,
       absl::StrCat(
           "generation ", generation, ": node rank ", node_rank, " of ",
           change.world.members_size(), ", world size ",
           change.world.world_size(),
           start.waiting.empty()
               ? ""
               : absl::StrCat(", ", start.waiting.size(), " of ",
                              agent.hello.ranks(), " ranks stayed alive")));
  start.node_rank = node_rank;
  start.world_commit = std::move(change.world_commit);
  start.world = std::move(change.world);
  agent.actions.push_back(std::move(start));
  if (change.notice.has_value()) OnNotice(agent, *change.notice);
}

}  // namespace rollcall
