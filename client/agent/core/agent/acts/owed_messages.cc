#include "client/agent/core/agent/acts/owed_messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent_events.h"
#include "daemon/base/durations.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {
namespace {

// The daemon's own limit (admission) is slightly higher.
constexpr absl::Duration kDeadlineMax = absl::Hours(24 * 365);

}  // namespace

void SayPreparedIfReady(AgentState& agent) {
  if (!agent.change.has_value() || !agent.change->owes_prepared() ||
      !agent.Settled() || !agent.attendance.welcomed()) {
    return;
  }
  v1::AgentMessage message;
  *message.mutable_prepared() = agent.change->TakePrepared();
  for (const auto& [local_rank, rank] : agent.rank_processes) {
    *message.mutable_prepared()->add_states() = *rank.waits;
  }
  Tell(agent, std::move(message));
}

void SayAnswerIfDue(AgentState& agent) {
  if (!agent.attendance.welcomed()) return;
  std::optional<v1::AgentMessage> answer = agent.answer.Take(agent.Settled());
  if (answer.has_value()) Tell(agent, *std::move(answer));
}

void Refuse(AgentState& agent, uint64_t generation, const std::string& reason) {
  agent.answer.Refuse(generation, reason);
  SayAnswerIfDue(agent);
}

void SayExits(AgentState& agent) {
  if (!agent.running.has_value()) return;
  for (const v1::RankExited& exited : agent.running->exits) {
    v1::AgentMessage message;
    *message.mutable_rank_exited() = exited;
    Tell(agent, std::move(message));
  }
}

void SayNoticeSeenIfThere(AgentState& agent) {
  if (!agent.notices.owes_seen() || !agent.attendance.welcomed()) return;
  const bool all = std::all_of(
      agent.rank_processes.begin(), agent.rank_processes.end(),
      [&agent](const auto& entry) {
        const RankProcess& rank = entry.second;
        return rank.ended || rank.at_boundary || agent.Awaited(rank);
      });
  if (!all) return;
  v1::AgentMessage message;
  message.mutable_notice_seen()->set_notice(agent.notices.Seen());
  message.mutable_notice_seen()->set_generation(agent.running->generation);
  Tell(agent, std::move(message));
}

void SaySetupEnded(AgentState& agent) {
  if (!agent.attendance.welcomed()) return;
  std::optional<v1::SetupEnded> ended = agent.setup.TakeResult();
  if (!ended.has_value()) return;
  v1::AgentMessage message;
  *message.mutable_setup_ended() = *std::move(ended);
  Tell(agent, std::move(message));
}

void SayFactChanges(AgentState& agent) {
  if (!agent.attendance.welcomed()) return;
  for (v1::FactChange& change : agent.fact_changes.Take()) {
    v1::AgentMessage message;
    *message.mutable_fact_change() = std::move(change);
    Tell(agent, std::move(message));
  }
}

void SayLeaving(AgentState& agent) {
  v1::AgentMessage message;
  message.mutable_leaving()->set_reason(
      absl::StrCat("signal ", agent.leave.signal()));
  // The daemon may have set any notice time; the clamp keeps the message valid.
  ToProto(
      std::clamp(agent.limits.notice_time, absl::ZeroDuration(), kDeadlineMax),
      message.mutable_leaving()->mutable_deadline());
  Tell(agent, std::move(message));
}

}  // namespace rollcall
