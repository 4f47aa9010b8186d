#include "client/agent/core/agent/acts/watchdog.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/acts/telling.h"
#include "daemon/base/printable.h"

namespace rollcall {
namespace {

void SayStalledIfKnown(AgentState& agent, uint32_t local_rank,
                       RankProcess& rank) {
  if (!rank.stall.has_value() || !rank.stall->known() || rank.stall->said ||
      !agent.Welcomed()) {
    return;
  }
  rank.stall->said = true;
  const v1::RankStalled& stalled = rank.stall->message;
  v1::AgentMessage message;
  *message.mutable_rank_stalled() = stalled;
  Tell(agent, std::move(message));
  const std::string what =
      rank.begun
          ? absl::StrCat("made no progress for ",
                         absl::FormatDuration(agent.limits.hang_timeout),
                         " after step ", stalled.step())
          : absl::StrCat(
                "neither linked nor published a step for ",
                absl::FormatDuration(agent.starts.Timeout(agent.limits)));
  Tell(
      agent, Report::Kind::kWarning,
      absl::StrCat(
          "local rank ", local_rank, " has ", what,
          stalled.stopped() ? "; it is stopped" : "",
          stalled.has_answered() && !stalled.answered() ? "; it does not answer"
                                                        : "",
          stalled.has_collective_entered()
              ? absl::StrCat("; entered collective ",
                             stalled.collective_entered())
              : "",
          stalled.has_collective_left()
              ? absl::StrCat(", left ", stalled.collective_left())
              : "",
          stalled.text().empty() ? "" : absl::StrCat("; ", stalled.text()),
          "; its stacks are in its stderr"));
}

}  // namespace

void Watch(AgentState& agent, uint32_t local_rank, RankProcess& rank) {
  Unwatch(agent, local_rank, rank);
  if (agent.limits.hang_timeout <= absl::ZeroDuration() ||
      agent.exit.has_value()) {
    return;
  }
  rank.hangs_at = agent.now + agent.limits.hang_timeout;
}

void WatchStart(AgentState& agent, RankProcess& rank) {
  if (!agent.ExpectsStarts() || rank.begun || rank.ended || rank.stopping) {
    return;
  }
  rank.hangs_at =
      agent.starts.StalledAt(rank.started_at, agent.limits, agent.now);
}

void NoteBegun(AgentState& agent, uint32_t local_rank, RankProcess& rank) {
  if (std::exchange(rank.begun, true)) return;
  Unwatch(agent, local_rank, rank);
  agent.starts.Took(std::min(agent.now - rank.started_at, Limits::wait_max));
}

void Unwatch(AgentState& agent, uint32_t local_rank, RankProcess& rank) {
  rank.hangs_at = absl::InfiniteFuture();
  const std::optional<RankStall> stall =
      std::exchange(rank.stall, std::nullopt);
  if (!stall.has_value() || !stall->said || !agent.running.has_value() ||
      agent.exit.has_value()) {
    return;
  }
  v1::AgentMessage message;
  v1::RankStalled& stalled = *message.mutable_rank_stalled();
  stalled.set_generation(agent.running->generation);
  stalled.set_local_rank(local_rank);
  stalled.set_goes_on(true);
  Tell(agent, std::move(message));
  Tell(agent, Report::Kind::kState,
       absl::StrCat("local rank ", local_rank, " makes progress again"));
}

void UnwatchAll(AgentState& agent) {
  for (auto& [local_rank, rank] : agent.rank_processes)
    Unwatch(agent, local_rank, rank);
}

void Forgive(AgentState& agent, absl::Duration late) {
  for (auto& [local_rank, rank] : agent.rank_processes) {
    rank.hangs_at += late;
    if (rank.stall.has_value()) rank.stall->answer_by += late;
  }
}

void LookForHangs(AgentState& agent) {
  if (!agent.running.has_value()) return;
  for (auto& [local_rank, rank] : agent.rank_processes) {
    if (rank.stall.has_value()) {
      if (agent.now < rank.stall->answer_by) continue;
      rank.stall->answer_by = absl::InfiniteFuture();
      rank.stall->message.set_answered(false);
      SayStalledIfKnown(agent, local_rank, rank);
    } else if (agent.now >= rank.hangs_at) {
      rank.stall = RankStall();
      RankStall& stall = *rank.stall;
      stall.message.set_generation(agent.running->generation);
      stall.message.set_local_rank(local_rank);
      stall.message.set_step(rank.step);
      if (rank.linked)
        stall.answer_by = agent.now + agent.limits.where_patience;
      agent.actions.push_back(
          LookAtRank{{rank.born, local_rank}, agent.running->generation});
    }
  }
}

void SayStallsAgain(AgentState& agent) {
  for (auto& [local_rank, rank] : agent.rank_processes) {
    if (rank.stall.has_value()) rank.stall->said = false;
    if (rank.hangs_at != absl::InfiniteFuture() && rank.begun &&
        rank.step == 0) {
      Watch(agent, local_rank, rank);
    }
    SayStalledIfKnown(agent, local_rank, rank);
  }
}

void OnRanksLink(AgentState& agent, const v1::RanksLink& link) {
  if (!agent.starts.Take(link)) return;
  for (auto& [local_rank, rank] : agent.rank_processes) WatchStart(agent, rank);
}

void On(AgentState& agent, const RankIsHere& here) {
  RankProcess* rank = agent.FindRunning(here.generation, here.local_rank);
  if (rank == nullptr || !rank->stall.has_value() ||
      rank->stall->answer_by == absl::InfiniteFuture()) {
    return;
  }
  rank->stall->answer_by = absl::InfiniteFuture();
  v1::RankStalled& message = rank->stall->message;
  message.set_answered(true);
  if (here.collective_entered.has_value()) {
    // A program may report any numbers; they must not make the message invalid.
    const uint64_t entered = *here.collective_entered;
    message.set_collective_entered(entered);
    if (here.collective_left.has_value()) {
      message.set_collective_left(std::min(entered, *here.collective_left));
    }
  }
  SayStalledIfKnown(agent, here.local_rank, *rank);
}

void On(AgentState& agent, const RankLooked& looked) {
  RankProcess* rank =
      agent.Find(looked.incarnation.generation, looked.incarnation.local_rank);
  if (rank == nullptr || !rank->stall.has_value()) return;
  rank->stall->looked = true;
  rank->stall->message.set_stopped(looked.stopped);
  rank->stall->message.set_nccl(looked.nccl);
  rank->stall->message.set_text(
      Printable(looked.text, Limits::stall_text_bytes_max));
  SayStalledIfKnown(agent, looked.incarnation.local_rank, *rank);
}

}  // namespace rollcall
