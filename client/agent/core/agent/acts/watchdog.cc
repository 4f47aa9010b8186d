#include "client/agent/core/agent/acts/watchdog.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/acts/telling.h"

namespace rollcall {
namespace {

void SayStalledIfKnown(AgentState& agent, uint32_t local_rank,
                       RankProcess& rank) {
  if (!agent.attendance.welcomed()) return;
  const v1::RankStalled* report = rank.watch.TakeReport();
  if (report == nullptr) return;
  const v1::RankStalled& stalled = *report;
  v1::AgentMessage message;
  *message.mutable_rank_stalled() = stalled;
  Tell(agent, std::move(message));
  const std::string what =
      rank.watch.begun()
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
      agent.departure.leaves()) {
    return;
  }
  rank.watch.Start(agent.now + agent.limits.hang_timeout);
}

void WatchStart(AgentState& agent, RankProcess& rank) {
  if (!agent.ExpectsStarts() || rank.watch.begun() || rank.ended ||
      rank.stopping) {
    return;
  }
  rank.watch.Start(
      agent.starts.StalledAt(rank.started_at, agent.limits, agent.now));
}

void NoteBegun(AgentState& agent, uint32_t local_rank, RankProcess& rank) {
  if (!rank.watch.Begin()) return;
  Unwatch(agent, local_rank, rank);
  agent.starts.Took(std::min(agent.now - rank.started_at, Limits::wait_max));
}

void Unwatch(AgentState& agent, uint32_t local_rank, RankProcess& rank) {
  const bool reported = rank.watch.Stop();
  if (!reported || !agent.running.has_value() || agent.departure.leaves()) {
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
  for (auto& [local_rank, rank] : agent.rank_processes) {
    Unwatch(agent, local_rank, rank);
  }
}

void Forgive(AgentState& agent, absl::Duration late) {
  for (auto& [local_rank, rank] : agent.rank_processes) rank.watch.Delay(late);
}

void LookForHangs(AgentState& agent) {
  if (!agent.running.has_value()) return;
  for (auto& [local_rank, rank] : agent.rank_processes) {
    switch (rank.watch.Tick(agent.now)) {
      case RankWatch::Due::kNothing:
        break;
      case RankWatch::Due::kNoAnswer:
        SayStalledIfKnown(agent, local_rank, rank);
        break;
      case RankWatch::Due::kExamine: {
        v1::RankStalled message;
        message.set_generation(agent.running->generation);
        message.set_local_rank(local_rank);
        message.set_step(rank.step);
        rank.watch.Stalled(std::move(message),
                           rank.linked ? agent.now + agent.limits.where_patience
                                       : absl::InfiniteFuture());
        agent.actions.push_back(
            LookAtRank{{rank.born, local_rank}, agent.running->generation});
        break;
      }
    }
  }
}

void SayStallsAgain(AgentState& agent) {
  const absl::Duration away = agent.now - agent.redial.lost_at();
  const absl::Duration unnoticed =
      agent.limits.keepalive_time + agent.limits.keepalive_timeout;
  for (auto& [local_rank, rank] : agent.rank_processes) {
    rank.watch.NewStream();
    if (rank.watch.runs() && rank.watch.begun() && rank.step == 0) {
      rank.watch.Waited(away, unnoticed, agent.now + agent.limits.hang_timeout,
                        agent.now);
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
  if (rank == nullptr || !rank->watch.Answer(here)) return;
  SayStalledIfKnown(agent, here.local_rank, *rank);
}

void On(AgentState& agent, const RankLooked& looked) {
  RankProcess* rank =
      agent.Find(looked.incarnation.generation, looked.incarnation.local_rank);
  if (rank == nullptr || !rank->watch.Look(looked)) return;
  SayStalledIfKnown(agent, looked.incarnation.local_rank, *rank);
}

}  // namespace rollcall
