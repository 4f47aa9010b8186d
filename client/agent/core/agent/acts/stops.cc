#include "client/agent/core/agent/acts/stops.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent/acts/telling.h"

namespace rollcall {

void StopThose(AgentState& agent, absl::Duration grace,
               const std::function<bool(const RankProcess&)>& which) {
  const absl::Time kill_at = agent.now + grace;
  std::vector<RankIncarnation> told;
  for (auto& [local_rank, rank] : agent.rank_processes) {
    if (!which(rank) || (rank.stopping && kill_at >= rank.kill_at)) continue;
    rank.stopping = true;
    rank.kill_at = kill_at;
    rank.answer_by = absl::InfiniteFuture();
    rank.waits.reset();
    told.push_back({rank.born, local_rank});
  }
  if (!told.empty()) agent.actions.push_back(StopRanks{std::move(told), grace});
}

void Stop(AgentState& agent, absl::Duration grace, Keep keep) {
  const auto kept = [keep](const RankProcess& rank) {
    return keep == Keep::kElastic && rank.elastic && !rank.ended &&
           !rank.stopping;
  };
  for (auto& [local_rank, rank] : agent.rank_processes) {
    if (kept(rank) && !rank.waits.has_value() &&
        rank.answer_by == absl::InfiniteFuture()) {
      rank.answer_by = agent.now + grace;
    }
  }
  // Ranks that were signalled for a notice have already used part or all of
  // their grace period.
  const std::optional<absl::Duration> left =
      agent.notices.GraceLeft(grace, agent.now);
  if (left.has_value()) {
    StopThose(agent, *left, [&](const RankProcess& rank) {
      return rank.signalled && !kept(rank);
    });
  }
  StopThose(agent, grace, [&](const RankProcess& rank) {
    return !(left.has_value() && rank.signalled) && !kept(rank);
  });
}

void KillUnanswered(AgentState& agent) {
  StopThose(agent, absl::ZeroDuration(), [&agent](const RankProcess& rank) {
    return agent.now >= rank.answer_by;
  });
}

void KillAtNoticeDeadline(AgentState& agent) {
  if (!agent.notices.TakeDue(agent.now)) return;
  StopThose(agent, absl::ZeroDuration(), [](const RankProcess& rank) {
    return (rank.signalled || !rank.elastic) && !rank.ended &&
           !rank.at_boundary;
  });
}

void KillTheHung(AgentState& agent, uint32_t local_rank) {
  const auto at = agent.rank_processes.find(local_rank);
  if (at == agent.rank_processes.end() || at->second.ended) return;
  StopThose(agent, absl::ZeroDuration(),
            [&at](const RankProcess& rank) { return &rank == &at->second; });
}

void LeaveAttachedRanksAlone(AgentState& agent) {
  if (agent.now < agent.NextLeftAlone()) return;
  for (auto at = agent.rank_processes.begin();
       at != agent.rank_processes.end();) {
    const auto& [local_rank, rank] = *at;
    if (!rank.stopping || agent.now < rank.kill_at) {
      ++at;
      continue;
    }
    Tell(agent, Report::Kind::kWarning,
         absl::StrCat("local rank ", local_rank,
                      " was told to stop and is still connected; this agent "
                      "did not start it and leaves it to its parent"));
    at = agent.rank_processes.erase(at);
  }
}

void StopSetup(AgentState& agent, absl::Duration grace) {
  if (agent.setup.Stop(grace, agent.now)) {
    agent.actions.push_back(StopSetupCommand{grace});
  }
}

}  // namespace rollcall
