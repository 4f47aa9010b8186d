// Agent: linked ranks, which keep running from world to world, and notices.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"
#include "daemon/base/durations.h"

namespace rollcall {

Agent::RankProcess* Agent::Attending(uint64_t generation, uint32_t local_rank) {
  const auto at = rank_processes_.find(local_rank);
  if (at == rank_processes_.end() || at->second.ended || at->second.stopping ||
      !running_.has_value() || running_->generation != generation) {
    return nullptr;
  }
  return &at->second;
}

void Agent::On(const RankAttended& attended) {
  RankProcess* rank = Attending(attended.generation, attended.local_rank);
  if (rank == nullptr) return;  // It is being stopped as a plain rank.
  NoteBegun(attended.local_rank, *rank);
  rank->linked = true;
  rank->unlinked = false;
  rank->elastic = attended.elastic;
  if (attach_) {
    Tell(Report::Kind::kState,
         absl::StrCat("local rank ", attended.local_rank, " has attached"));
  }
  // Ranks that are not elastic may need a long time before their first step.
  if (attended.elastic) Watch(attended.local_rank, *rank);
}

void Agent::On(const RankUnlinked& unlinked) {
  const auto at = rank_processes_.find(unlinked.local_rank);
  if (at == rank_processes_.end()) return;
  RankProcess& rank = at->second;
  rank.linked = rank.elastic = false;
  rank.unlinked = true;
  // The rank may need a long time after its last step.
  Unwatch(unlinked.local_rank, rank);
  if (running_.has_value() || rank.ended || rank.stopping) return;
  // No later world can reach the rank. Usually its process ends soon.
  if (rank.waits.has_value() && preparing_.has_value()) {
    preparing_->said = false;
  }
  StopThose(limits_.stop_grace,
            [&rank](const RankProcess& other) { return &other == &rank; });
}

void Agent::On(const RankDoubled& doubled) {
  Tell(
      Report::Kind::kWarning,
      absl::StrCat("local rank ", doubled.local_rank, ": process ", doubled.pid,
                   " attaches while process ", doubled.connected_pid,
                   " is connected for it; the new one gets no world before "
                   "the other one has ended (is LOCAL_RANK right?)"));
}

void Agent::On(const RankWaits& waits) {
  const auto at = rank_processes_.find(waits.local_rank);
  if (at == rank_processes_.end() || running_.has_value() ||
      waits.generation != ended_generation_) {
    return;
  }
  RankProcess& rank = at->second;
  if (!rank.elastic || rank.ended || rank.stopping || rank.waits.has_value()) {
    return;
  }
  rank.answer_by = absl::InfiniteFuture();
  rank.at_boundary = false;
  v1::RankState& state = rank.waits.emplace();
  state.set_local_rank(waits.local_rank);
  state.set_completed_step(waits.completed_step);
  state.set_whole_state(waits.whole_state);
  SayStoppedIfSettled();
  SayPreparedIfReady();
  StartIfSettled();
}

void Agent::StopWhoDidNotAnswer() {
  StopThose(absl::ZeroDuration(),
            [this](const RankProcess& rank) { return now_ >= rank.answer_by; });
}

// --- Ranks that the agent did not start (--attach) ---------------------------

absl::Time Agent::NextLeftAlone() const {
  absl::Time next = absl::InfiniteFuture();
  if (!attach_ || !exit_.has_value()) return next;
  for (const auto& [local_rank, rank] : rank_processes_) {
    if (rank.stopping) next = std::min(next, rank.kill_at);
  }
  return next;
}

// At the end of the agent there is no later world with these ranks, so it does
// not wait for them. Between two worlds it waits.
void Agent::LeaveTheUnendedAlone() {
  if (now_ < NextLeftAlone()) return;
  for (auto at = rank_processes_.begin(); at != rank_processes_.end();) {
    const auto& [local_rank, rank] = *at;
    if (!rank.stopping || now_ < rank.kill_at) {
      ++at;
      continue;
    }
    Tell(Report::Kind::kWarning,
         absl::StrCat("local rank ", local_rank,
                      " was told to stop and is still connected; this agent "
                      "did not start it and leaves it to its parent"));
    at = rank_processes_.erase(at);
  }
}

// --- Notices -----------------------------------------------------------------

void Agent::OnNotice(const v1::Notice& notice) {
  drained_ |= std::count(notice.nodes().begin(), notice.nodes().end(),
                         hello_.node()) > 0;
  if (preparing_.has_value() && preparing_->world_commit.has_value() &&
      notice.generation() == preparing_->world.generation()) {
    preparing_->notice = notice;
    return;
  }
  if (!running_.has_value() || notice.generation() != running_->generation) {
    return;
  }
  if (notice_.has_value() && notice.notice() <= notice_->number) {
    if (notice.notice() == notice_->number) notice_->said = false;
    return SayNoticeSeenIfThere();
  }
  notice_ = Notice();
  notice_->number = notice.notice();
  const absl::Duration deadline = notice.has_deadline()
                                      ? FromProto(notice.deadline())
                                      : limits_.notice_time;
  TellNotice tell;
  tell.notice.set_notice(notice.notice());
  tell.notice.set_kind(notice.kind());
  tell.notice.set_reason(notice.reason());
  tell.notice.set_generation(notice.generation());
  if (notice.has_deadline()) {
    *tell.notice.mutable_deadline() = notice.deadline();
  }
  tell.deadline = deadline;
  Tell(Report::Kind::kState,
       absl::StrCat("notice ", notice.notice(), ": ", notice.reason()));
  actions_.push_back(std::move(tell));

  // Ranks that were signalled for an earlier notice are already stopping. A
  // rank that has closed its connection has finished: after a signal, its exit
  // 0 would count as the notice's and the job would begin again.
  std::vector<RankIncarnation> signalled;
  for (auto& [local_rank, rank] : rank_processes_) {
    // With --attach, a rank that attaches later in this generation is told
    // then.
    if (rank.ended || rank.elastic || attach_) continue;
    notice_->kill_at = now_ + deadline;
    if (rank.linked || rank.unlinked) continue;
    if (std::exchange(rank.signalled, true)) continue;
    signalled.push_back({rank.born, local_rank});
  }
  if (!signalled.empty()) {
    actions_.push_back(PassSignal{std::move(signalled), preempt_signal_});
  }
  SayNoticeSeenIfThere();
}

void Agent::On(const RankAtBoundary& at) {
  RankProcess* rank = Attending(at.generation, at.local_rank);
  if (rank == nullptr || !rank->linked) return;
  rank->at_boundary = true;
  Unwatch(at.local_rank, *rank);
  SayNoticeSeenIfThere();
}

void Agent::SayNoticeSeenIfThere() {
  if (!notice_.has_value() || notice_->said || link_ != Link::kAttending) {
    return;
  }
  const bool all =
      std::all_of(rank_processes_.begin(), rank_processes_.end(),
                  [this](const auto& entry) {
                    const RankProcess& rank = entry.second;
                    return rank.ended || rank.at_boundary || Awaited(rank);
                  });
  if (!all) return;
  notice_->said = true;
  v1::AgentMessage message;
  message.mutable_notice_seen()->set_notice(notice_->number);
  message.mutable_notice_seen()->set_generation(running_->generation);
  Tell(std::move(message));
}

void Agent::KillWhoseNoticeIsOver() {
  if (!notice_.has_value() || notice_->over || now_ < notice_->kill_at) return;
  notice_->over = true;
  StopThose(absl::ZeroDuration(), [](const RankProcess& rank) {
    return (rank.signalled || !rank.elastic) && !rank.ended &&
           !rank.at_boundary;
  });
}

}  // namespace rollcall
