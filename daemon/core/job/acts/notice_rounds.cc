#include "daemon/core/job/acts/notice_rounds.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/standing.h"

namespace rollcall {
void AskRanks(JobState& job, v1::NoticeKind kind, absl::Duration deadline,
              const std::string& reason, bool again) {
  CHECK(job.IsRunning());
  if (job.notices.Ask(kind, job.now + deadline, reason, again, job.now))
    TellNotice(job);
}

void TellNotice(JobState& job) {
  if (job.notices.unwritten()) JournalLeaving(job);
  std::map<uint32_t, std::string> missing;
  for (const Node* node : job.membership.MembersOf(job.world())) {
    if (!node->ended()) missing.emplace(node->node_rank, node->name());
  }
  const v1::Notice& notice = job.notices.Tell(
      job.generation(), std::move(missing),
      [&job](const std::string& name) { return job.Knows(name); }, job.now);
  v1::DaemonMessage message;
  *message.mutable_notice() = job.notices.Now(job.now);
  job.out.SendTo(job.membership.StreamsOf(job.world()), std::move(message));
  job.out.Say(Log::Level::kInfo,
              absl::StrCat("event=notice notice=", notice.notice(),
                           " generation=", job.generation(),
                           " kind=", v1::NoticeKind_Name(notice.kind()),
                           " reason=", Quoted(notice.reason())));
  job.out.Changed();
}

void AskDuringChange(JobState& job) {
  AskRanks(job, v1::NOTICE_KIND_GROW, absl::InfiniteDuration(),
           "the daemon was restarted during a change");
}

void MaybeTellLeaving(JobState& job) {
  const Notices::Due due = job.notices.TakeDue(job.now);
  if (due.journal) JournalLeaving(job);
  if (due.tell) TellNotice(job);
}

void ForgetLeaving(JobState& job, const std::string& name) {
  if (!job.notices.Forget(name) || job.HasEnded()) return;
  if (job.notices.LeavingChanged(job.now)) JournalLeaving(job);
}

void EndNoticeRound(JobState& job) {
  job.notices.Drop();
  job.newcomers.StopGrowing();
  for (const std::string& name : job.notices.leaving()) {
    Node* const at = job.membership.Find(name);
    if (at == nullptr || at->gone) continue;
    Node& node = *at;
    if (node.session != 0 && !job.membership.IsExcluded(name)) {
      Exclude(job, node, node.reason);
    }
    node.seat = -1;
    node.state = v1::NODE_STATE_DRAINING;
  }
}

}  // namespace rollcall
