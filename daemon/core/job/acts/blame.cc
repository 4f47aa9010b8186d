#include "daemon/core/job/acts/blame.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/core/events.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/job/acts/generation_end.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/standing.h"

namespace rollcall {
namespace {

// The time after which a plain command has made progress by running: its ranks
// neither link nor write progress.
constexpr absl::Duration kRunCountsAsProgress = absl::Minutes(10);

void AskForChecks(JobState& job, Node& node) {
  // An ended job assigns no seats.
  if (node.session == 0 || job.HasEnded()) return;
  v1::DaemonMessage message;
  message.mutable_check_request()->set_request(
      job.quarantine.Ask(node, job.now, job.limits));
  job.out.SendTo(node, std::move(message));
}

// `times`: 1, or 0 to take the blame back because another failure came first.
void BlameNode(JobState& job, const v1::RootCause& cause, uint32_t times) {
  if (cause.rank() < 0) return;
  Node* const at = job.membership.Find(cause.node());
  if (at == nullptr || at->gone) return;
  Node& node = *at;
  if (times > 0) {
    node.record.blames += times;
    job.quarantine.NoteBlame();
    return AskForChecks(job, node);
  }
  if (node.record.blames > 0) --node.record.blames;
  const bool stays = node.record.blames >= job.limits.blames_in_a_row ||
                     node.record.unfit || job.Leaves(node);
  if (!node.exclusion.quarantined || stays) return;
  Unquarantine(job, node);
  if (job.IsRunning() && node.session != 0) GrowSoon(job, node);
}

}  // namespace

void MadeProgress(JobState& job) {
  job.failures.GiveBack();
  for (auto& [name, node] : job.membership.nodes()) node.record.blames = 0;
}

void BlameInReform(JobState& job, const v1::RootCause& cause) {
  if (!job.failures.reasons().Blame(cause, job.failures.charged(),
                                    job.generation()))
    return;
  job.out.Changed();
}

void BlameLostNode(JobState& job, const Node& node, v1::ReasonCode code,
                   const std::string& reason) {
  // Evicting a node that is alive says nothing about an earlier failure.
  if (code == v1::REASON_CODE_EVICTED && node.session != 0) return;
  const auto former = job.failures.TakeLoss(node.name(), code, reason, job.now);
  if (!former.has_value()) return;
  job.failures.SetNodeChanges(job.ChangesOf(node.name()));
  BlameNode(job, *former, 0);
  BlameInReform(job, job.failures.cause());
}

void GenerationFailed(JobState& job, v1::RootCause cause, bool permanent) {
  cause.set_node_changes(job.ChangesOf(cause.node()));
  if (job.failures.EndByRank(job.world(), cause, permanent, job.now,
                             job.limits)) {
    Reform(job, cause.code(), Describe(cause), cause.node());
    return BlameNode(job, cause, 1);
  }
  EndGeneration(job, cause.code(), Describe(cause), cause.node(),
                job.limits.linger == absl::ZeroDuration());
  job.phase = JobPhase::kBlameWindow;
  job.failures.AwaitStops(job.membership.MembersOf(job.world()).size());
}

void MaybeEndBlameWindow(JobState& job) {
  if (job.phase != JobPhase::kBlameWindow) return;
  if (!job.failures.WindowIsOver(job.now)) return;
  const v1::RootCause& cause = job.failures.cause();
  // The job was asked to end in any case.
  if (job.notices.end_then().has_value())
    return EndJob(job, *job.notices.end_then());
  if (IsLostNode(cause)) {
    // The root cause is a lost node, which costs no restart, so the job
    // continues without that node. The ranks were left running because the job
    // seemed to have failed.
    if (job.limits.linger > absl::ZeroDuration()) TellAbort(job);
    return Gather(job, /*at_once=*/true);
  }
  v1::End end = job.failures.EndOf(job.limits);
  if (job.limits.linger > absl::ZeroDuration()) {
    ToProto(job.limits.linger, end.mutable_linger());
  }
  EndJobFailed(job, std::move(end));
}

void RankFailed(JobState& job, Node& node, const v1::RankExited& exited) {
  const std::string name = node.name();
  if (!exited.started_again() &&
      job.failures.IsInWindow(exited.generation(), job.now)) {
    if (const auto former = job.failures.TakeRank(name, exited, job.now)) {
      job.failures.SetNodeChanges(job.ChangesOf(name));
      BlameNode(job, *former, 0);
      BlameNode(job, job.failures.cause(), 1);
      BlameInReform(job, job.failures.cause());
    }
    return;
  }
  if (!job.IsRunning() || exited.generation() != job.generation() ||
      !node.member()) {
    return;
  }
  const uint32_t first = job.world().members(node.node_rank).first_rank();
  const v1::RootCause cause =
      CauseOfRank(name, first + exited.local_rank(), exited);
  if (exited.started_again()) {
    return Reform(job, cause.code(),
                  absl::StrCat(Describe(cause), "; its parent starts it again"),
                  name);
  }
  if (HasProgressed(job.membership, &node) ||
      (!AnyHasStarted(job.membership) &&
       job.now - job.completion.running_since() >= kRunCountsAsProgress)) {
    MadeProgress(job);
  }
  GenerationFailed(job, cause, exited.permanent());
}

void ReleaseTheBlamed(JobState& job, size_t missing) {
  for (Node* node : Quarantine::ToRelease(
           job.membership, missing,
           [&job](const Node& blamed) { return job.Leaves(blamed); })) {
    Unquarantine(job, *node);
    job.out.Say(Log::Level::kWarning,
                absl::StrCat("event=unquarantined node=", node->name(),
                             " blames=", node->record.blames,
                             " reason=\"without it fewer than ",
                             job.settings.nodes_min(), " nodes are left\""));
  }
}

}  // namespace rollcall
