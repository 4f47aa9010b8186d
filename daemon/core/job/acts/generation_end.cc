#include "daemon/core/job/acts/generation_end.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/notice_rounds.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/standing.h"

namespace rollcall {
void EndGeneration(JobState& job, v1::ReasonCode code,
                   const std::string& reason, const std::string& node,
                   bool tell) {
  CHECK(job.HasWorld());
  if (job.IsRunning()) {
    // From now on the world's members may run without being heard.
    job.gathering.fence() =
        Fence(job.world(), *job.formation.world_commit(),
              job.completion.finished(), job.membership, job.now);
    // The end of the generation must not be journaled before this record.
    if (job.completion.record_due() != absl::InfiniteFuture())
      JournalFinished(job);
  }
  job.failures.reasons().Ended(job.generation(), code, reason, node,
                               job.failures.charged());
  job.out.Write(Journal::Kind::kEnded, job.generation(),
                job.failures.reasons().next());
  if (tell) TellAbort(job);
  for (Node* node : job.membership.MembersOf(job.world())) {
    if (node->state == v1::NODE_STATE_RUNNING ||
        node->state == v1::NODE_STATE_FINISHED ||
        node->state == v1::NODE_STATE_PREPARING) {
      node->state = v1::NODE_STATE_ATTENDING;
    }
  }
  job.out.Say(Log::Level::kWarning,
              absl::StrCat("event=abort generation=", job.generation(),
                           " code=", v1::ReasonCode_Name(code),
                           " reason=", Quoted(reason), job.steps.Text()));
  job.completion.DropRecord();
  job.store.End();
  EndNoticeRound(job);
  job.hangs.DropAll();
  job.vetting.probes().WorldEnded(job.membership, job.now, job.limits);
  job.out.Changed();
}

void Gather(JobState& job, bool at_once) {
  job.phase = JobPhase::kGathering;
  job.gathering.Begin(at_once, job.now, job.limits);
  job.waiting.TellAt(job.now + absl::Seconds(1));
  job.waiting.Reset();
  job.vetting.Gather();
  TakeToldFacts(job);
  TakeBackUnreached(job);
  job.out.Changed();
}

void Reform(JobState& job, v1::ReasonCode code, const std::string& reason,
            const std::string& node) {
  EndGeneration(job, code, reason, node);
  // All ranks were asked to end in any case, so no new world is formed.
  if (job.notices.end_then().has_value())
    return EndJob(job, *job.notices.end_then());
  Gather(job, /*at_once=*/true);
}

}  // namespace rollcall
