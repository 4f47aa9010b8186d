#include "daemon/core/job/handlers/rank_reports.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/job/acts/blame.h"
#include "daemon/core/job/acts/first_steps.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/handlers/leaving.h"

namespace rollcall {
void OnHeartbeat(JobState& job, Node& node, const v1::Heartbeat& heartbeat) {
  if (job.credentials.IsRenewalDue(node, job.now, job.limits)) {
    v1::DaemonMessage message;
    message.mutable_new_credential()->set_node_credential(
        job.credentials.Issue(node, job.now));
    job.out.SendTo(node, std::move(message));
  }
  // An agent reports stalled ranks before the first heartbeat of a stream.
  node.lease.tells_until = absl::InfinitePast();
  node.ranks.step = std::max(node.ranks.step, heartbeat.step());
  const bool current = heartbeat.generation() == job.generation();
  if (node.node_rank == 0 && heartbeat.has_pace() && current &&
      job.steps.TakePace(heartbeat.pace())) {
    job.out.Changed();
  }
  // Only for a node that has been in a world: a spare has no ranks.
  if (heartbeat.ranks_link() && node.served_in != 0) {
    NoteStarted(job, node, FromProto(heartbeat.start_took()));
  }
  // Only for a member: a spare does not train.
  if (!job.IsRunning() || !node.member() || !current || heartbeat.step() == 0) {
    return;
  }
  // The first step is shown at once; later steps are shown with the next other
  // change.
  if (!job.hangs.HasStepped(job.generation())) job.out.Changed();
  NoteStarted(job, node);
  job.hangs.NoteStep(job.generation());
  const StepAccount::Taken taken =
      job.steps.Take(node, heartbeat, job.world(), job.membership, job.now);
  for (const Log& line : taken.lines) job.out.Say(line.level, line.text);
  if (taken.changed) job.out.Changed();
  job.vetting.probes().PingOften(job.steps.probes_wanted(), job.now,
                                 job.limits);
}

void OnRankExited(JobState& job, Node& node, const v1::RankExited& exited) {
  if (!HasRankOrClose(job, node, exited.local_rank())) return;
  job.steps.TakeExit(node, exited);
  // The agent ended the rank, or the rank ended because of a notice. If nothing
  // was asked of the ranks, the rank ended by itself, whatever the agent
  // reports.
  const bool nothing_is_asked =
      job.IsRunning() && exited.generation() == job.generation() &&
      !job.notices.pending() && !job.completion.taken_up();
  if (exited.stopped_by_agent() && !nothing_is_asked) {
    return OnEndedForNotice(job, node, exited);
  }
  const bool failed = exited.code() != 0 || exited.signal() != 0;
  if (failed) return RankFailed(job, node, exited);
  if (!job.IsRunning() || exited.generation() != job.generation() ||
      !node.member() || node.over(exited.local_rank())) {
    return;
  }
  job.hangs.Drop(job.RankOf(node, exited.local_rank()));
  if (!job.completion.RankEnded(node, exited.local_rank())) return;
  node.state = job.StateByPhase(node);
  job.out.Changed();
  if (job.completion.all()) return EndJobFinished(job);
  job.completion.Finished(node, job.now);
  AtBoundary(job, node);
  if (!job.IsRunning())
    return;  // This was the last member to reach the boundary.
  if (job.waiting.due() == absl::InfiniteFuture()) {
    job.waiting.TellAt(job.now + absl::Minutes(1));
  }
}

void OnExchange(JobState& job, Node& node, const v1::ExchangeIn& in) {
  if (!job.IsRunning() || !node.member() ||
      in.generation() != job.generation()) {
    return;  // Its ranks learn this from the Abort that was already sent.
  }
  const absl::StatusOr<Exchanges::Result> result =
      job.exchanges.In(static_cast<uint32_t>(node.node_rank), in);
  if (!result.ok()) {
    // The ranks made the mistake, not the agent, so only their call fails.
    v1::DaemonMessage message;
    v1::ExchangeOut& out = *message.mutable_exchange();
    out.set_generation(job.generation());
    out.set_key(in.key());
    out.set_code(static_cast<uint32_t>(result.status().code()));
    out.set_error(std::string(result.status().message()));
    return job.out.SendTo(node, std::move(message));
  }
  if (result->out == nullptr) return;
  v1::DaemonMessage message;
  *message.mutable_exchange() = *result->out;
  job.out.SendTo(result->complete ? job.membership.StreamsOf(job.world())
                                  : std::vector<SessionId>{node.session},
                 std::move(message));
}

void OnStore(JobState& job, Node& node, const v1::StoreIn& in) {
  if (!job.IsRunning() || !node.member()) return;
  const absl::Status heard =
      job.store.Hear(static_cast<uint32_t>(node.node_rank), in);
  if (!heard.ok()) {
    job.out.Close(node.session, heard.code(), v1::REFUSAL_CODE_SLOW,
                  std::string(heard.message()));
  }
  SendStoreMessages(job);
}

void OnRankStalled(JobState& job, Node& node, const v1::RankStalled& stalled) {
  if (!HasRankOrClose(job, node, stalled.local_rank()) || !job.IsRunning() ||
      stalled.generation() != job.generation() || !node.member() ||
      node.over(stalled.local_rank())) {
    return;
  }
  if (HasBegun(stalled)) NoteStarted(job, node);
  const uint32_t rank = job.RankOf(node, stalled.local_rank());
  if (job.hangs.Take(rank, node.name(), node.node_rank, stalled, job.now,
                     job.limits)) {
    job.out.SayOf(node, Log::Level::kWarning,
                  absl::StrCat("event=stalled generation=", job.generation(),
                               " rank=", rank, " node=", node.name(),
                               " step=", stalled.step(),
                               " text=", Quoted(stalled.text())));
  }
  // If the verdict is due, it waits for the next Tick. The Tick tells how late
  // the daemon is: reports about other ranks may still be queued.
  if (job.now < job.hangs.due()) MaybeEndHung(job);
}

void MaybeEndHung(JobState& job) {
  if (!job.MayEndHung() ||
      !job.hangs.MayJudge(job.completion.ranks_over(), job.world().world_size(),
                          job.now)) {
    return;
  }
  const auto hang = job.hangs.Judge(
      Hangs::World::Of(job.world(), job.completion, job.membership), job.now,
      job.limits);
  if (!hang.has_value()) return;
  // Here running for some time is not progress: the ranks may have stalled
  // since their start.
  if (HasProgressed(job.membership)) MadeProgress(job);
  if (!hang->disbelieved_reason.empty()) {
    job.out.Say(Log::Level::kWarning,
                absl::StrCat("event=disbelieved generation=", job.generation(),
                             " rank=", hang->disbelieved_rank,
                             " node=", hang->disbelieved_node,
                             " reason=", Quoted(hang->disbelieved_reason)));
  }
  GenerationFailed(job, hang->cause);
}

}  // namespace rollcall
