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
  const v1::WorldCommit& world_commit = *agent.preparing->world_commit;
  const v1::Member& me = agent.preparing->world.members(
      static_cast<int>(agent.preparing->node_rank));
  const uint32_t rank = world_commit.state_source().rank();
  if (!world_commit.has_state_source() || rank < me.first_rank() ||
      rank - me.first_rank() >= me.ranks() ||
      agent.rank_processes.contains(rank - me.first_rank())) {
    return std::nullopt;
  }
  return rank - me.first_rank();
}

}  // namespace

void StartIfSettled(AgentState& agent) {
  if (!agent.preparing.has_value() ||
      !agent.preparing->world_commit.has_value() || !agent.Settled()) {
    return;
  }
  const v1::World& world = agent.preparing->world;
  if (const std::optional<uint32_t> lost = LostSource(agent)) {
    v1::AgentMessage message;
    v1::RankExited& exited = *message.mutable_rank_exited();
    exited.set_generation(world.generation());
    exited.set_local_rank(*lost);
    exited.set_code(1);
    exited.set_stderr_tail("the state source ended before its state was sent");
    // If the agent redials, the daemon sends the commit again and gets this
    // answer again, until it ends the generation.
    agent.preparing->world_commit.reset();
    return Tell(agent, std::move(message));
  }
  agent.running = AgentState::Running();
  agent.running->generation = world.generation();
  agent.running->ranks = agent.hello.ranks();
  const v1::Member& me =
      world.members(static_cast<int>(agent.preparing->node_rank));
  agent.running->first_rank = me.first_rank();
  agent.exchanges.Begin(world.generation(), me.first_rank(),
                        agent.hello.ranks(),
                        static_cast<int>(world.world_size()));
  Carry(agent, agent.store.Begin(world.generation()));
  agent.running->world_bytes = std::move(agent.preparing->world_bytes);
  agent.running->world_commit_bytes =
      std::move(agent.preparing->world_commit_bytes);
  agent.running->proof = std::move(agent.preparing->proof);
  StartRanks start;
  for (uint32_t local = 0; local < RanksStarted(me); ++local) {
    const auto [at, fresh] = agent.rank_processes.try_emplace(local);
    if (fresh) {
      at->second.born = world.generation();
      at->second.started_at = agent.now;
      WatchStart(agent, at->second);
      start.fresh.push_back(local);
    } else {
      at->second.waits.reset();
      at->second.signalled = false;
      at->second.step = 0;
      Watch(agent, local, at->second);
      start.waiting.push_back({at->second.born, local});
    }
  }
  Tell(agent, Report::Kind::kState,
       absl::StrCat(
           "generation ", world.generation(), ": node rank ",
           agent.preparing->node_rank, " of ", world.members_size(),
           ", world size ", world.world_size(),
           start.waiting.empty()
               ? ""
               : absl::StrCat(", ", start.waiting.size(), " of ",
                              agent.hello.ranks(), " ranks stayed alive")));
  start.node_rank = agent.preparing->node_rank;
  start.world_commit = *std::move(agent.preparing->world_commit);
  start.world = std::move(agent.preparing->world);
  const std::optional<v1::Notice> notice = std::move(agent.preparing->notice);
  agent.actions.push_back(std::move(start));
  agent.preparing.reset();
  if (notice.has_value()) OnNotice(agent, *notice);
}

}  // namespace rollcall
