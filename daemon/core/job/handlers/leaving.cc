#include "daemon/core/job/handlers/leaving.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/text/name_list.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/job/acts/generation_end.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/loss.h"
#include "daemon/core/job/acts/notice_rounds.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/standing.h"

namespace rollcall {
namespace {

// Most newcomers named in a notice.
constexpr size_t kCalledNamedMax = 16;

void AskToLeave(JobState& job, Node& node, absl::Duration deadline,
                const std::string& reason) {
  if (job.HasEnded()) return;
  deadline = std::max(deadline, absl::ZeroDuration());
  const std::string text = absl::StrCat(node.name(), " leaves: ", reason);
  const bool in_world = job.IsRunning() && node.member() && !node.finished();
  const Notices::Request request = job.notices.TakeRequest(
      node, in_world, job.now + deadline, text, job.membership,
      job.settings.nodes_min(), job.limits, job.now);
  if (request.first) {
    node.state = v1::NODE_STATE_DRAINING;
    node.reason = text;
    job.out.Changed();
  }
  if (request.journal) JournalLeaving(job);
  switch (request.then) {
    case Notices::Request::Then::kNothing:
      return;
    case Notices::Request::Then::kAtOnce:
      return LeaveAtOnce(job, node, text);
    case Notices::Request::Then::kAsk:
      return AskRanks(job, job.notices.kind(), deadline, text, !request.first);
  }
}

}  // namespace

void LeaveAtOnce(JobState& job, Node& node, const std::string& reason) {
  const bool forming = job.phase == JobPhase::kForming && node.member();
  // If a member leaves between two generations, the job ends, as it would have
  // ended just before.
  const bool between = job.generation() > 0 && node.seat >= 0 &&
                       job.phase == JobPhase::kGathering;
  const bool finished = job.IsRunning() && node.member();
  const std::string name = node.name();
  if (!finished) {
    Exclude(job, node, reason);
    node.state = v1::NODE_STATE_DRAINING;
    // Before the first world there is nothing to requeue, and others may come.
    if ((forming || between) && job.HasRun() &&
        job.notices.TooFewWithout(name, job.membership,
                                  job.settings.nodes_min())) {
      return EndJob(job,
                    RequeueEnd(reason, job.settings.nodes_min(), job.limits));
    }
  }
  SendLeft(job, node);
  if (forming) Reform(job, v1::REASON_CODE_LEAVING, reason, name);
}

void OnLeaving(JobState& job, Node& node, const v1::Leaving& leaving) {
  // This counts as a loss, because the node may attend again at once. A drain
  // by a person does not count.
  job.newcomers.Lost(node, job.generation(), job.now, job.limits);
  AskToLeave(job, node, LeavingDeadline(leaving, job.limits), leaving.reason());
}

void On(JobState& job, const DrainAsked& drain) {
  Node* const at = job.membership.Find(drain.node);
  if (at == nullptr || at->gone) return;  // The shell has told the admin.
  AskToLeave(job, *at, drain.deadline,
             drain.reason.empty() ? "drained" : drain.reason);
  // Journal at once: the admin is told that the request is done, and does not
  // repeat it. An agent would repeat its request.
  if (job.notices.unwritten()) JournalLeaving(job);
}

void On(JobState& job, const EvictAsked& evict) {
  if (job.HasEnded()) return;  // The shell has told the admin.
  const std::string reason = evict.reason.empty()
                                 ? "evicted"
                                 : absl::StrCat("evicted: ", evict.reason);
  for (const std::string& name : evict.nodes) {
    if (job.HasEnded()) return;
    if (evict.former) {
      // The former agent's credential became invalid when the other agent took
      // the name.
      job.out.Say(Log::Level::kWarning,
                  absl::StrCat("event=evict node=", name,
                               " former=true reason=", Quoted(reason)));
      if (job.gathering.fence().Gone(name)) FenceOpened(job);
      continue;
    }
    const bool taken_over = job.fence().IsTakenOver(name, job.membership);
    job.credentials.Evict(name);
    Node* const at = job.membership.Find(name);
    if (at != nullptr && !at->gone) {
      Lose(job, *at, v1::REASON_CODE_EVICTED, reason);
    } else {
      job.out.Say(
          Log::Level::kWarning,
          absl::StrCat("event=evict node=", name, " reason=", Quoted(reason)));
    }
    // If another agent had taken over the name, the former one may still run
    // ranks.
    if (!taken_over && job.gathering.fence().Gone(name)) FenceOpened(job);
    // Eviction replaces a request to leave. If the node is admitted again, it
    // is not asked to leave.
    if (!job.HasEnded()) ForgetLeaving(job, name);
  }
}

void OnNoticeSeen(JobState& job, Node& node, const v1::NoticeSeen& seen) {
  if (!job.IsRunning() || !node.member() ||
      seen.generation() != job.generation()) {
    return;
  }
  switch (job.notices.Seen(seen.notice(), job.completion.taken_up(), job.now)) {
    case Notices::Answer::kNothing:
      return;
    case Notices::Answer::kReached:
      return AtBoundary(job, node);
    case Notices::Answer::kTell:
      return TellNotice(job);
    case Notices::Answer::kAsk:
      return AskDuringChange(job);
  }
}

void OnEndedForNotice(JobState& job, const Node& node,
                      const v1::RankExited& exited) {
  if (!job.IsRunning() || !node.member() ||
      exited.generation() != job.generation()) {
    return;
  }
  if (!job.notices.pending()) AskDuringChange(job);
  job.notices.Bound(job.now, job.limits);
  if (!exited.killed() && exited.signal() != SIGKILL) return;
  job.notices.Killed(job.RankOf(node, exited.local_rank()), node.name());
}

void AtBoundary(JobState& job, Node& node) {
  const auto node_rank = static_cast<uint32_t>(node.node_rank);
  if (job.notices.Reached(node_rank, job.now, job.limits)) EndAtBoundary(job);
}

void EndAtBoundary(JobState& job) {
  Notices::Outcome outcome = job.notices.AtBoundary();
  if (outcome.end.has_value()) return EndJob(job, *std::move(outcome.end));
  Reform(job, outcome.code, outcome.reason, outcome.node);
}

void MaybeGrow(JobState& job) {
  if (job.now < job.newcomers.grow_at()) return;
  job.newcomers.StopGrowing();
  if (!job.IsRunning() || job.notices.pending() || job.isolation.on() ||
      job.settings.grow() == v1::GROW_NEVER) {
    return;
  }
  const Seats seats = job.SeatsNow();
  const absl::Time due = seats.NewcomerDue(
      job.world(), job.settings.nodes_max(),
      [&job](const std::string& name) { return job.notices.Leaves(name); });
  if (due > job.now) return job.newcomers.GrowAt(due);
  if (job.completion.HasBegun(job.membership)) return;
  std::vector<std::string> called = seats.NewcomersNow();
  const size_t unchecked =
      std::erase_if(called, [&job](const std::string& name) {
        return job.vetting.IsUnchecked(job.membership.At(name),
                                       job.ForVetting());
      });
  if (unchecked > 0) job.vetting.NoteSpare();
  if (called.empty()) return;
  for (const std::string& name : called) job.membership.At(name).called = true;
  AskRanks(job, v1::NOTICE_KIND_GROW, absl::InfiniteDuration(),
           absl::StrCat("to take in ", NameList(called, kCalledNamedMax)));
}

void On(JobState& job, const StopAsked& stop) {
  if (job.HasEnded()) {
    if (job.ending.StopAgain(stop.now)) SendEnd(job);
    return;
  }
  v1::End end;
  end.set_now(stop.now);
  end.set_exit_code(stop.exit_code);
  end.set_code(stop.code);
  end.set_reason(stop.reason);
  if (stop.now || !job.IsRunning() || job.membership.AllMembersAreAway()) {
    return EndJob(job, std::move(end));
  }
  // The ranks may save first, all at the same step.
  const bool asked = job.notices.end_then().has_value();
  job.notices.EndThen(std::move(end));
  JournalLeaving(job);
  // All ranks may have been asked already, with a later deadline.
  if (!asked || !job.notices.pending() ||
      job.now + job.limits.notice_time < job.notices.until()) {
    AskRanks(job, v1::NOTICE_KIND_PREEMPT, job.limits.notice_time, stop.reason);
  }
}

}  // namespace rollcall
