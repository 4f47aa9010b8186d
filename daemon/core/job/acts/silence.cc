#include "daemon/core/job/acts/silence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/core/events.h"
#include "daemon/core/job/acts/sends.h"

namespace rollcall {
void NoteBreak(JobState& job, Node& node) {
  if (!job.HasWorld() || !node.member()) return;
  for (const std::string& name : job.isolation.NoteBreak(
           node.name(), static_cast<size_t>(job.world().members_size()),
           job.now, job.limits)) {
    Node* const at = job.membership.Find(name);
    if (at == nullptr || at->gone || at->session != 0 ||
        at->lease.broke_with_many) {
      continue;
    }
    // The node is lost only when its lease ends.
    at->lease.broke_with_many = true;
    at->reason = "its stream broke together with many others";
    job.membership.SetDeadline(*at,
                               std::max(at->lease.deadline, at->lease.until));
  }
}

void MaybeBeginIsolation(JobState& job) {
  const Membership& membership = job.membership;
  if (job.isolation.on() || !job.HasWorld() ||
      !job.isolation.MaybeBegin(membership.MembersOf(job.world()), job.now,
                                job.limits)) {
    return;
  }
  job.out.Say(
      Log::Level::kWarning,
      absl::StrCat(
          "event=isolated generation=", job.generation(), " silent=",
          job.isolation.silent(), " of=", job.world().members_size(),
          " reason=\"over half of the world fell silent within one lease, so "
          "this daemon takes itself to be cut off; it gives up no node for ",
          absl::FormatDuration(job.limits.daemon_grace), "\""));
  TellSpares(job);
  job.out.Changed();
}

void HeardFrom(JobState& job, const std::string& name) {
  if (!job.isolation.NoteHeard(name)) return;
  // A cheap test before the count, because this is called for thousands of
  // nodes.
  if (!job.isolation.on() || !job.isolation.FewAreSilent(static_cast<size_t>(
                                 job.world().members_size()))) {
    return;
  }
  const size_t members = job.membership.MembersOf(job.world()).size();
  if (!job.isolation.FewAreSilent(members)) return;
  job.out.Say(
      Log::Level::kInfo,
      absl::StrCat("event=reunited generation=", job.generation(),
                   " silent=", job.isolation.silent(), " of=", members));
  EndIsolation(job);
}

std::set<std::string> EndIsolation(JobState& job) {
  std::set<std::string> silent = job.isolation.End();
  for (auto& [name, node] : job.membership.nodes()) {
    if (node.gone || node.lease.deadline == absl::InfiniteFuture()) continue;
    job.membership.SetDeadline(
        node, std::max(node.lease.deadline, job.now + job.limits.lease));
    node.lease.until = std::max(node.lease.until, job.now + job.limits.lease);
  }
  if (job.phase == JobPhase::kForming)
    job.formation.Extend(job.now, job.limits);
  if (job.phase == JobPhase::kGathering)
    job.gathering.BeginAgain(job.now, job.limits);
  if (job.IsRunning())
    job.newcomers.GrowAt(job.now + job.limits.arrivals_pause);
  job.hangs.BeginAgain(job.now, job.limits);
  job.vetting.probes().AwaitSuspectsAgain();
  TellSpares(job);
  job.out.Changed();
  return silent;
}

}  // namespace rollcall
