#include "daemon/core/job/acts/sends.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/core/events.h"
#include "daemon/core/job/state/job_report.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
void TellSpare(JobState& job, const Node& node) {
  v1::DaemonMessage message;
  message.mutable_waiting()->set_spare(true);
  message.mutable_waiting()->set_reason(JobReport(job).WhyNoSeat(node));
  job.out.SendTo(node, std::move(message));
}

void TellSpares(JobState& job) {
  if (!job.IsRunning()) return;
  for (const auto& [name, node] : job.membership.nodes()) {
    if (node.session != 0 && !node.member()) TellSpare(job, node);
  }
}

void TellWaiting(JobState& job) {
  v1::DaemonMessage message;
  v1::Waiting& waiting = *message.mutable_waiting();
  waiting.set_nodes_min(job.settings.nodes_min());
  waiting.set_nodes_max(job.settings.nodes_max());
  waiting.set_present(static_cast<uint32_t>(job.membership.present()));
  std::vector<SessionId> to;
  std::string said;
  if (job.phase == JobPhase::kGathering) {
    job.waiting.TellAt(job.now + absl::Seconds(1));
    waiting = JobReport(job).Waiting();
    to = job.membership.Streams();
    // While a fence holds, a change of only the remaining time or of the
    // present nodes is not sent.
    if (job.FenceLeft(job.now) > absl::ZeroDuration()) {
      said = job.fence().Text(job.limits.unheard(), job.membership);
    }
  } else if (job.phase == JobPhase::kForming) {
    waiting.set_spare(true);
    for (const auto& [name, node] : job.membership.nodes()) {
      if (node.session == 0 || node.member()) continue;
      if (node.reason.empty()) {
        to.push_back(node.session);
        continue;
      }
      v1::DaemonMessage own = message;
      own.mutable_waiting()->set_reason(node.reason);
      job.out.SendTo(node, std::move(own));
    }
  } else if (job.IsRunning()) {
    job.waiting.TellAt(job.now + absl::Minutes(1));
    for (const v1::Member& member : job.world().members()) {
      Node* const at = job.membership.Find(member.node());
      // The member has finished and left.
      if (at == nullptr || at->gone) continue;
      if (at->ended()) {
        if (at->session != 0) to.push_back(at->session);
      } else {
        waiting.add_missing(member.node());
      }
    }
    waiting.set_without_rank(true);
    waiting.set_reason("no rank runs on this node; others still run");
  } else {
    job.waiting.Stop();
    return;
  }
  if (said.empty()) said = waiting.SerializeAsString();
  const bool news = job.waiting.IsNew(std::move(said));
  if (job.phase != JobPhase::kForming && !news) return;
  ToProto(job.now - job.gathering.since(), waiting.mutable_waited());
  if (!to.empty()) job.out.SendTo(std::move(to), std::move(message));
}

void TellAbort(JobState& job) {
  v1::DaemonMessage message;
  message.mutable_abort()->set_generation(job.generation());
  message.mutable_abort()->set_code(job.failures.reasons().next().code());
  message.mutable_abort()->set_reason(job.failures.reasons().next().reason());
  // The rank that hangs is killed at once, because it would not react to
  // SIGTERM.
  if (job.failures.reasons().next().code() == v1::REASON_CODE_HANG &&
      !job.failures.reasons().next().node().empty()) {
    const auto rank = static_cast<uint32_t>(job.failures.cause().rank());
    for (const v1::Member& member : job.world().members()) {
      if (member.node() != job.failures.reasons().next().node()) continue;
      message.mutable_abort()->set_hung_node(member.node());
      message.mutable_abort()->set_hung_local_rank(rank - member.first_rank());
    }
  }
  job.out.SendTo(job.membership.StreamsOf(job.world()), std::move(message));
}

void SendLeft(JobState& job, const Node& node) {
  v1::DaemonMessage message;
  message.mutable_end()->set_finished(true);
  message.mutable_end()->set_code(v1::REASON_CODE_LEAVING);
  message.mutable_end()->set_reason("this node left the job");
  job.out.SendTo(node, std::move(message));
}

void SendStoreMessages(JobState& job) {
  for (GenerationStore::Message& message : job.store.Take()) {
    const Node* const node = job.membership.Find(
        job.world().members(static_cast<int>(message.node)).node());
    if (node == nullptr || !node->member()) continue;
    v1::DaemonMessage sent;
    *sent.mutable_store() = std::move(message.out);
    job.out.SendTo(*node, std::move(sent));
  }
}

bool HasRankOrClose(JobState& job, const Node& node, uint32_t local_rank) {
  if (local_rank < node.hello.ranks()) return true;
  job.out.Close(node.session, absl::StatusCode::kInvalidArgument,
                v1::REFUSAL_CODE_INVALID,
                absl::StrCat("local rank ", local_rank, " of a node with ",
                             node.hello.ranks(), " ranks"));
  return false;
}

}  // namespace rollcall
