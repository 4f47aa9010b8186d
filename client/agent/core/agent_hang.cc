// Agent: the watchdog, which finds ranks that make no progress and reports
// them.
//
// The clock of a rank starts when progress may be expected: for an elastic rank
// when it attends or gets a new world, for other ranks at their first progress.
// The clock stops when the rank reaches a boundary, ends, unlinks, or is
// between two worlds. The daemon decides which rank stalled first, because all
// ranks of a world stall soon after one of them does.
//
// A rank that has neither linked nor published a step has another clock. It
// starts at the rank's start, and only in worlds for which the daemon has sent
// RanksLink: ranks of over half of the nodes link or publish steps. No progress
// is expected of a plain command that does neither, even if other ranks of this
// node do.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"

namespace rollcall {

// Starts the rank's clock: it has made progress, or progress may be expected
// from now on.
void Agent::Watch(uint32_t local_rank, RankProcess& rank) {
  Unwatch(local_rank, rank);
  if (limits_.hang_timeout <= absl::ZeroDuration() || exit_.has_value()) return;
  rank.hangs_at = now_ + limits_.hang_timeout;
}

bool Agent::ExpectsStarts() const {
  return running_.has_value() && !exit_.has_value() &&
         starts_.Expects(running_->generation, limits_);
}

// Starts the clock of a rank that is expected to link or to publish a step.
void Agent::WatchStart(RankProcess& rank) {
  if (!ExpectsStarts() || rank.begun || rank.ended || rank.stopping) return;
  rank.hangs_at = starts_.StalledAt(rank.started_at, limits_, now_);
}

void Agent::NoteBegun(uint32_t local_rank, RankProcess& rank) {
  if (std::exchange(rank.begun, true)) return;
  Unwatch(local_rank, rank);
  starts_.Took(std::min(now_ - rank.started_at, Limits::wait_max));
}

void Agent::OnRanksLink(const v1::RanksLink& link) {
  if (!starts_.Take(link)) return;
  for (auto& [local_rank, rank] : rank_processes_) WatchStart(rank);
}

void Agent::Unwatch(uint32_t local_rank, RankProcess& rank) {
  rank.hangs_at = absl::InfiniteFuture();
  const std::optional<Stall> stall = std::exchange(rank.stall, std::nullopt);
  if (!stall.has_value() || !stall->said || !running_.has_value() ||
      exit_.has_value()) {
    return;
  }
  v1::AgentMessage message;
  v1::RankStalled& stalled = *message.mutable_rank_stalled();
  stalled.set_generation(running_->generation);
  stalled.set_local_rank(local_rank);
  stalled.set_goes_on(true);
  Tell(std::move(message));
  Tell(Report::Kind::kState,
       absl::StrCat("local rank ", local_rank, " makes progress again"));
}

void Agent::UnwatchAll() {
  for (auto& [local_rank, rank] : rank_processes_) Unwatch(local_rank, rank);
}

// While the loop was delayed it read no messages of its ranks, so their
// deadlines are moved by the delay.
void Agent::Forgive(absl::Duration late) {
  for (auto& [local_rank, rank] : rank_processes_) {
    rank.hangs_at += late;
    if (rank.stall.has_value()) rank.stall->answer_by += late;
  }
}

absl::Time Agent::NextHang() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [local_rank, rank] : rank_processes_) {
    next = std::min(
        next, rank.stall.has_value() ? rank.stall->answer_by : rank.hangs_at);
  }
  return next;
}

void Agent::LookForHangs() {
  if (!running_.has_value()) return;
  for (auto& [local_rank, rank] : rank_processes_) {
    if (rank.stall.has_value()) {
      if (now_ < rank.stall->answer_by) continue;
      rank.stall->answer_by = absl::InfiniteFuture();
      rank.stall->message.set_answered(false);
      SayStalledIfKnown(local_rank, rank);
    } else if (now_ >= rank.hangs_at) {
      rank.stall = Stall();
      Stall& stall = *rank.stall;
      stall.message.set_generation(running_->generation);
      stall.message.set_local_rank(local_rank);
      stall.message.set_step(rank.step);
      if (rank.linked) stall.answer_by = now_ + limits_.where_patience;
      actions_.push_back(
          LookAtRank{{rank.born, local_rank}, running_->generation});
    }
  }
}

void Agent::On(const RankIsHere& here) {
  RankProcess* rank = Attending(here.generation, here.local_rank);
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
  SayStalledIfKnown(here.local_rank, *rank);
}

void Agent::On(const RankLooked& looked) {
  RankProcess* rank =
      Find(looked.incarnation.generation, looked.incarnation.local_rank);
  if (rank == nullptr || !rank->stall.has_value()) return;
  rank->stall->looked = true;
  rank->stall->message.set_stopped(looked.stopped);
  rank->stall->message.set_nccl(looked.nccl);
  rank->stall->message.set_text(
      Printable(looked.text, Limits::stall_text_bytes_max));
  SayStalledIfKnown(looked.incarnation.local_rank, *rank);
}

void Agent::SayStalledIfKnown(uint32_t local_rank, RankProcess& rank) {
  if (!rank.stall.has_value() || !rank.stall->known() || rank.stall->said ||
      link_ != Link::kAttending) {
    return;
  }
  rank.stall->said = true;
  const v1::RankStalled& stalled = rank.stall->message;
  v1::AgentMessage message;
  *message.mutable_rank_stalled() = stalled;
  Tell(std::move(message));
  const std::string what =
      rank.begun ? absl::StrCat("made no progress for ",
                                absl::FormatDuration(limits_.hang_timeout),
                                " after step ", stalled.step())
                 : absl::StrCat("neither linked nor published a step for ",
                                absl::FormatDuration(starts_.Timeout(limits_)));
  Tell(
      Report::Kind::kWarning,
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

// Called for a new stream. A rank that has begun and has published no step may
// have waited for the daemon all the time, so its clock starts again.
void Agent::SayStallsAgain() {
  for (auto& [local_rank, rank] : rank_processes_) {
    if (rank.stall.has_value()) rank.stall->said = false;
    if (rank.hangs_at != absl::InfiniteFuture() && rank.begun &&
        rank.step == 0) {
      Watch(local_rank, rank);
    }
    SayStalledIfKnown(local_rank, rank);
  }
}

// Kills the rank that the daemon blames. It does not respond, so it gets no
// grace period.
void Agent::KillTheHung(uint32_t local_rank) {
  const auto at = rank_processes_.find(local_rank);
  if (at == rank_processes_.end() || at->second.ended) return;
  StopThose(absl::ZeroDuration(),
            [&at](const RankProcess& rank) { return &rank == &at->second; });
}

}  // namespace rollcall
