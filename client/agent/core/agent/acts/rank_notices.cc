#include "client/agent/core/agent/acts/rank_notices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "daemon/base/durations.h"

namespace rollcall {

void OnNotice(AgentState& agent, const v1::Notice& notice) {
  if (std::count(notice.nodes().begin(), notice.nodes().end(),
                 agent.hello.node()) > 0) {
    agent.notices.Drain();
  }
  if (agent.change.has_value() && agent.change->Keep(notice)) return;
  if (!agent.running.has_value() ||
      notice.generation() != agent.running->generation) {
    return;
  }
  if (!agent.notices.Take(notice.notice())) return SayNoticeSeenIfThere(agent);
  const absl::Duration deadline = notice.has_deadline()
                                      ? FromProto(notice.deadline())
                                      : agent.limits.notice_time;
  TellNotice tell;
  tell.notice.set_notice(notice.notice());
  tell.notice.set_kind(notice.kind());
  tell.notice.set_reason(notice.reason());
  tell.notice.set_generation(notice.generation());
  if (notice.has_deadline()) {
    *tell.notice.mutable_deadline() = notice.deadline();
  }
  tell.deadline = deadline;
  Tell(agent, Report::Kind::kState,
       absl::StrCat("notice ", notice.notice(), ": ", notice.reason()));
  agent.actions.push_back(std::move(tell));

  // Ranks that were signalled for an earlier notice are already stopping. A
  // rank that has closed its connection has finished: after a signal, its exit
  // 0 would count as the notice's and the job would begin again.
  std::vector<RankIncarnation> signalled;
  for (auto& [local_rank, rank] : agent.rank_processes) {
    // With --attach, a rank that attaches later in this generation is told
    // then.
    if (rank.ended || rank.elastic || agent.attach) continue;
    agent.notices.LimitTo(agent.now + deadline);
    if (rank.linked || rank.unlinked) continue;
    if (std::exchange(rank.signalled, true)) continue;
    signalled.push_back({rank.born, local_rank});
  }
  if (!signalled.empty()) {
    agent.actions.push_back(
        PassSignal{std::move(signalled), agent.preempt_signal});
  }
  SayNoticeSeenIfThere(agent);
}

void On(AgentState& agent, const RankAtBoundary& at) {
  RankProcess* rank = agent.FindRunning(at.generation, at.local_rank);
  if (rank == nullptr || !rank->linked) return;
  rank->at_boundary = true;
  Unwatch(agent, at.local_rank, *rank);
  SayNoticeSeenIfThere(agent);
}

}  // namespace rollcall
