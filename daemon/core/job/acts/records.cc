#include "daemon/core/job/acts/records.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/events.h"

namespace rollcall {
void JournalLeaving(JobState& job) {
  job.out.Write(Journal::Kind::kLeaving, job.generation(),
                job.notices.TakeRecord(job.now));
}

void JournalFinished(JobState& job) {
  job.out.Write(Journal::Kind::kFinished, job.generation(),
                job.completion.TakeRecord());
}

void MaybeJournalFinished(JobState& job) {
  if (job.now >= job.completion.record_due()) JournalFinished(job);
}

void JournalNodeEpochs(JobState& job) {
  // Nothing is journaled after the end.
  if (job.HasEnded()) return;
  job.credentials.epochs().MaybePrune(
      [&job](const std::string& name) { return job.membership.Has(name); });
  if (const auto changes = job.credentials.epochs().TakeChanges()) {
    job.out.Write(Journal::Kind::kNodeEpochs, job.generation(), *changes);
  }
}

void FenceOpened(JobState& job) {
  // Nothing is journaled after the end.
  if (job.HasEnded()) return;
  job.out.WriteBytes(Journal::Kind::kFenceOpen, job.fence().generation(), "");
  job.out.Say(Log::Level::kInfo, absl::StrCat("event=fence_open generation=",
                                              job.fence().generation()));
  job.out.Changed();
}

void NoteStopped(JobState& job, const Node& node) {
  if (!job.fence().IsOf(node)) return;
  job.gathering.fence().Gone(node.name());
  FenceOpened(job);
}

}  // namespace rollcall
