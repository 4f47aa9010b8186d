// Job: messages to waiting nodes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/job/job.h"
#include "daemon/core/job/job_report.h"
#include "daemon/core/network_plan/pings.h"

namespace rollcall {

void Job::TellSpare(const Node& node) {
  v1::DaemonMessage message;
  message.mutable_waiting()->set_spare(true);
  message.mutable_waiting()->set_reason(JobReport(*this).WhyNoSeat(node));
  out_.SendTo(node, std::move(message));
}

// Sends spares their reason again, because the last one is no longer true.
void Job::TellSpares() {
  if (!IsRunning()) return;
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.session != 0 && !node.member()) TellSpare(node);
  }
}

// Sends at most once a second, and only if something has changed.
void Job::TellWaiting() {
  v1::DaemonMessage message;
  v1::Waiting& waiting = *message.mutable_waiting();
  waiting.set_nodes_min(settings_.nodes_min());
  waiting.set_nodes_max(settings_.nodes_max());
  waiting.set_present(static_cast<uint32_t>(membership_.present()));
  std::vector<SessionId> to;
  std::string said;
  if (phase_ == Phase::kGathering) {
    waiting_.TellAt(now_ + absl::Seconds(1));
    waiting = JobReport(*this).Waiting();
    to = membership_.Streams();
    // While a fence holds, a change of only the remaining time or of the
    // present nodes is not sent.
    if (FenceLeft(now_) > absl::ZeroDuration()) {
      said = fence().Text(limits_.unheard(), membership_);
    }
  } else if (phase_ == Phase::kForming) {
    waiting.set_spare(true);
    for (const auto& [name, node] : membership_.nodes()) {
      if (node.session == 0 || node.member()) continue;
      if (node.reason.empty()) {
        to.push_back(node.session);
        continue;
      }
      v1::DaemonMessage own = message;
      own.mutable_waiting()->set_reason(node.reason);
      out_.SendTo(node, std::move(own));
    }
  } else if (IsRunning()) {
    waiting_.TellAt(now_ + absl::Minutes(1));
    for (const v1::Member& member : world().members()) {
      Node* const at = membership_.Find(member.node());
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
    waiting_.Stop();
    return;
  }
  if (said.empty()) said = waiting.SerializeAsString();
  const bool news = waiting_.IsNew(std::move(said));
  if (phase_ != Phase::kForming && !news) return;
  ToProto(now_ - gathering_.since(), waiting.mutable_waited());
  if (!to.empty()) out_.SendTo(std::move(to), std::move(message));
}

v1::JobState Job::state() const { return JobReport(*this).State(); }

const v1::Reform& Job::last_reform() const {
  const bool between =
      phase_ == Phase::kGathering || phase_ == Phase::kBlameWindow;
  return between ? failures_.reasons().next() : failures_.reasons().current();
}

v1::JobStatus Job::Status(absl::Time now) const {
  return JobReport(*this).Status(now);
}

v1::Pings Job::Pings(absl::Time now) const {
  return PingsOf(world(), vetting_.probes().results(), now);
}

}  // namespace rollcall
