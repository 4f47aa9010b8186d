#include "daemon/core/job/handlers/node_reports.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/job/acts/blame.h"
#include "daemon/core/job/acts/generation_end.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/standing.h"
#include "daemon/core/job/handlers/forming.h"
#include "daemon/core/network_plan/facts_change.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

// A job that gathers for its first world waits for this node, so it fails.
// Otherwise, or if enough other nodes are there for all seats, it can do
// without the node.
void SetupFailed(JobState& job, Node& node, const v1::RootCause& cause) {
  job.out.SayOf(node, Log::Level::kWarning,
                absl::StrCat("event=setup_failed node=", node.name(),
                             " code=", cause.value(),
                             " reason=", Quoted(Describe(cause))));
  v1::End end;
  end.set_exit_code(cause.value());
  end.set_code(cause.code());
  end.set_reason(Describe(cause));
  const bool able = job.membership.IsEligible(node) &&
                    !job.vetting.probes().IsSilent(node.name(), job.now);
  const size_t others =
      job.vetting.probes().Able(job.membership, job.now) - (able ? 1 : 0);
  if (job.AwaitsFirstWorld() && others < job.settings.nodes_max()) {
    job.failures.EndBeforeFirst(cause);
    if (job.limits.linger > absl::ZeroDuration()) {
      ToProto(job.limits.linger, end.mutable_linger());
    }
    return EndJobFailed(job, std::move(end));
  }
  node.exclusion.setup_failed = true;
  Exclude(job, node, Describe(cause));
  node.exclusion.why = node.reason;
  *end.mutable_root_cause() = cause;
  *end.add_causes() = cause;
  v1::DaemonMessage message;
  *message.mutable_end() = std::move(end);
  job.out.SendTo(node, std::move(message));
}

}  // namespace

void OnSetupEnded(JobState& job, Node& node, const v1::SetupEnded& ended) {
  if (job.HasEnded()) return;
  if (!job.membership.EndSetup(node)) {
    return job.out.Close(
        node.session, absl::StatusCode::kInvalidArgument,
        v1::REFUSAL_CODE_INVALID,
        "expected SetupEnded once, and only after a Hello with "
        "setting_up; got another one");
  }
  job.out.Changed();
  if (ExitCodeOf(ended) != 0) {
    return SetupFailed(job, node, CauseOfSetup(node.name(), ended));
  }
  node.state = job.StateByPhase(node);
  if (!job.Leaves(node) && !job.membership.IsExcluded(node))
    node.reason.clear();
  SayHold(job, node);
  job.out.SayOf(node, Log::Level::kInfo,
                absl::StrCat("event=set_up node=", node.name(),
                             " tries=", ended.tries()));
  // Its command may have made the files that it shares with the others.
  if (job.IsRunning()) {
    CarryOutVetting(
        job, job.vetting.CompareNewcomer(node, job.world(), job.ForVetting()));
  }
  if (job.IsRunning() && !job.membership.IsExcluded(node)) GrowSoon(job, node);
}

void OnFactChange(JobState& job, Node& node, const v1::FactChange& change) {
  if (!node.changes.Take(change, job.now)) return;
  job.out.SayOf(node, Log::Level::kWarning,
                absl::StrCat("event=fact_changed node=", node.name(),
                             " kind=", Word(change.kind()),
                             " text=", Quoted(ChangeText(change))),
                "/facts");
  job.out.Changed();
  const auto failed_at = job.failures.TakesChangesOf(node.name(), job.now);
  if (!failed_at.has_value() || job.HasEnded()) return;
  job.failures.SetNodeChanges(node.changes.TextAround(*failed_at));
  BlameInReform(job, job.failures.cause());
}

void OnStopped(JobState& job, Node& node, const v1::Stopped& stopped) {
  if (stopped.generation() >= job.fence().generation()) NoteStopped(job, node);
  if (job.Leaves(node) && job.membership.IsExcluded(node.name())) {
    return SendLeft(job, node);
  }
  TakeBackLate(job, node);
  if (stopped.generation() != job.generation() || !node.member() ||
      node.stopped) {
    return;
  }
  node.stopped = true;
  if (job.phase == JobPhase::kBlameWindow) {
    job.failures.NoteStopped();
    MaybeEndBlameWindow(job);
  }
}

void OnCheckReport(JobState& job, Node& node, const v1::CheckReport& report) {
  if (!job.quarantine.TakeResult(node, report.request())) {
    const bool moved =
        report.has_facts() &&
        TakeFacts(job, node, report.facts()) == FactsChange::kAddresses;
    if (moved) ProbeAgain(job, node, moved);
    return;
  }
  const bool changed =
      report.has_facts() &&
      TakeFacts(job, node, report.facts()) != FactsChange::kNone;
  std::vector<std::string> fatal;
  for (const v1::CheckFinding& finding : report.findings()) {
    if (finding.severity() == v1::CheckFinding::SEVERITY_OK) continue;
    const std::string text =
        absl::StrCat(finding.check(), ": ", finding.text());
    if (finding.severity() == v1::CheckFinding::SEVERITY_FATAL) {
      fatal.push_back(text);
      continue;
    }
    job.out.SayOf(node, Log::Level::kWarning,
                  absl::StrCat("event=warning node=", node.name(),
                               " text=", Quoted(text)));
  }
  const std::string name = node.name();
  if (fatal.empty()) {
    if (changed && job.phase == JobPhase::kForming && node.member()) {
      Reform(job, v1::REASON_CODE_FACTS_CHANGED,
             absl::StrCat(name, " has other addresses or RDMA ports than ",
                          "before it failed"),
             name);
    }
    return;
  }
  node.record.unfit = true;
  const std::string reason =
      absl::StrCat("its checks failed: ", absl::StrJoin(fatal, "; "));
  const bool in_world = node.member() && job.HasWorld();
  SetQuarantined(job, node, reason);
  if (!in_world) return;
  Reform(job, v1::REASON_CODE_QUARANTINED, absl::StrCat(name, ": ", reason),
         name);
}

}  // namespace rollcall
