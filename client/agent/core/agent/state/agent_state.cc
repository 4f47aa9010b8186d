#include "client/agent/core/agent/state/agent_state.h"

#include <algorithm>

namespace rollcall {

AgentState::AgentState(const v1::Hello& hello, absl::Duration join_timeout,
                       const Limits& limits, absl::Time now, int preempt_signal,
                       bool attach, uint32_t setup_retries)
    : hello(hello),
      limits(limits),
      now(now),
      redial(limits, join_timeout, now),
      setup(hello.setting_up(), setup_retries),
      preempt_signal(preempt_signal),
      attach(attach) {}

bool AgentState::Settled() const {
  return std::all_of(
      rank_processes.begin(), rank_processes.end(),
      [](const auto& entry) { return entry.second.waits.has_value(); });
}

RankProcess* AgentState::Find(uint64_t born, uint32_t local_rank) {
  const auto at = rank_processes.find(local_rank);
  if (at == rank_processes.end() || at->second.born != born) return nullptr;
  return &at->second;
}

RankProcess* AgentState::FindRunning(uint64_t generation, uint32_t local_rank) {
  const auto at = rank_processes.find(local_rank);
  if (at == rank_processes.end() || at->second.ended || at->second.stopping ||
      !running.has_value() || running->generation != generation) {
    return nullptr;
  }
  return &at->second;
}

bool AgentState::ExpectsStarts() const {
  return running.has_value() && !departure.leaves() &&
         starts.Expects(running->generation, limits);
}

absl::Time AgentState::NextHang() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [local_rank, rank] : rank_processes) {
    next = std::min(next, rank.watch.due());
  }
  return next;
}

absl::Time AgentState::NextLeftAlone() const {
  absl::Time next = absl::InfiniteFuture();
  if (!attach || !departure.leaves()) return next;
  for (const auto& [local_rank, rank] : rank_processes) {
    if (rank.stopping) next = std::min(next, rank.kill_at);
  }
  return next;
}

absl::Time AgentState::NextDeadline() const {
  if (departure.exited()) return absl::InfiniteFuture();
  absl::Time next = std::min(
      {leave.due(), departure.linger_until(), setup.due(), notices.due(),
       attendance.heartbeat_due(), NextHang(), NextLeftAlone()});
  for (const auto& [local_rank, rank] : rank_processes) {
    next = std::min(next, rank.answer_by);
  }
  if (attendance.welcomed() || departure.leaves()) return next;
  if (attendance.down()) next = std::min(next, redial.dial_at());
  return std::min({next, redial.give_up_at(), redial.silent_until()});
}

}  // namespace rollcall
