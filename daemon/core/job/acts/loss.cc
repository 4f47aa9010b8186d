#include "daemon/core/job/acts/loss.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/events.h"
#include "daemon/core/failures/root_cause.h"
#include "daemon/core/job/acts/blame.h"
#include "daemon/core/job/acts/generation_end.h"
#include "daemon/core/job/acts/notice_rounds.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/silence.h"
#include "daemon/core/job/acts/standing.h"

namespace rollcall {
void Detach(JobState& job, Node& node) {
  job.membership.Disconnect(node);
  job.vetting.StreamBroke(node, job.ForVetting());
}

void GiveUp(JobState& job, Node& node, v1::NodeState state,
            const std::string& reason, bool evicted) {
  const std::string name = node.name();
  if (!job.Leaves(node) && !evicted)
    job.newcomers.Lost(node, job.generation(), job.now, job.limits);
  node.called = false;
  // The generation goes on without the node.
  if (job.IsRunning() && node.member() && node.finished()) {
    job.store.Gone(static_cast<uint32_t>(node.node_rank));
    SendStoreMessages(job);
  }
  if (node.session != 0) Detach(job, node);
  job.vetting.probes().Gone(name, job.now);
  job.quarantine.Forget(node);
  node.state = state;
  node.reason = reason;
  // The node was asked to leave for good, so its credential becomes invalid
  // even if the node leaves for another reason.
  if (job.Leaves(node) && !job.HasEnded()) job.credentials.epochs().Raise(name);
  // May remove `node` itself.
  const std::vector<std::string> removed = job.membership.Remove(node);
  // A lost node that was asked to leave must still leave if it comes back.
  if (state == v1::NODE_STATE_DRAINING) ForgetLeaving(job, name);
  HeardFrom(job, name);
  job.out.Changed();
  for (const std::string& former : removed) {
    job.vetting.Forget(former);
    ForgetLeaving(job, former);
  }
  TakeBackUnreached(job);
}

void Renew(JobState& job, Node& node) {
  node.lease.heard_at = job.now;
  node.lease.until = job.now + job.limits.lease;
  job.membership.SetDeadline(node, node.lease.until);
  HeardFrom(job, node.name());
}

void Lose(JobState& job, Node& node, v1::ReasonCode code,
          const std::string& reason) {
  const std::string name = node.name();
  const bool member = node.member();
  const bool finished = member && node.finished();
  const bool stopped = node.stopped;
  job.out.SayOf(node, Log::Level::kWarning,
                absl::StrCat("event=lost node=", name,
                             " code=", v1::ReasonCode_Name(code),
                             " reason=", Quoted(reason)));
  BlameLostNode(job, node, code, reason);
  v1::RootCause cause = CauseOfLostNode(name, code, reason, job.generation());
  cause.set_node_changes(job.ChangesOf(name));
  // Close comes before GiveUp, so that the stream ends with the reason.
  const Refused lost = RefusalOfLost(job.name(), name, code, reason);
  if (node.session != 0) {
    job.out.Close(node.session, lost.code, lost.refusal, lost.text);
  }
  GiveUp(job, node, v1::NODE_STATE_LOST, reason,
         code == v1::REASON_CODE_EVICTED);
  if (!member) return;
  const std::string text = Describe(cause);
  switch (job.phase) {
    case JobPhase::kForming:
      return Reform(job, code, text, name);
    case JobPhase::kRunning:
      // The member's ranks have finished, so its loss changes nothing.
      if (finished) return;
      job.failures.EndByLoss(job.world(), cause, job.now, job.limits);
      return Reform(job, code, text, name);
    case JobPhase::kBlameWindow:
      if (!stopped) job.failures.NoteStopped();
      return MaybeEndBlameWindow(job);
    case JobPhase::kGathering:
    case JobPhase::kEnded:
      return;
  }
}

void LoseTheSilent(JobState& job) {
  for (const std::string& name : EndIsolation(job)) {
    Node* const at = job.membership.Find(name);
    if (at == nullptr || at->gone) continue;
    Lose(job, *at, v1::REASON_CODE_LOST_LEASE,
         absl::StrCat("silent for ",
                      absl::FormatDuration(job.limits.daemon_grace)));
  }
}

}  // namespace rollcall
