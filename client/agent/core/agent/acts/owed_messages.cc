#include "client/agent/core/agent/acts/owed_messages.h"

#include <algorithm>
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
  if (!agent.preparing.has_value() || !agent.preparing->done.has_value() ||
      agent.preparing->said || agent.preparing->world_commit.has_value() ||
      !agent.Settled() || !agent.Welcomed()) {
    return;
  }
  agent.preparing->said = agent.preparing->promised = true;
  v1::AgentMessage message;
  *message.mutable_prepared() = *agent.preparing->done;
  for (const auto& [local_rank, rank] : agent.rank_processes) {
    *message.mutable_prepared()->add_states() = *rank.waits;
  }
  Tell(agent, std::move(message));
}

void SayStoppedIfSettled(AgentState& agent) {
  if (agent.stopped.generation == 0 || agent.stopped.said || !agent.Settled() ||
      !agent.Welcomed()) {
    return;
  }
  agent.stopped.said = true;
  v1::AgentMessage message;
  message.mutable_stopped()->set_generation(agent.stopped.generation);
  Tell(agent, std::move(message));
}

void Refuse(AgentState& agent, uint64_t generation, const std::string& reason) {
  agent.refused.emplace().set_generation(generation);
  agent.refused->set_reason(reason);
  SayRefused(agent);
}

void SayRefused(AgentState& agent) {
  if (!agent.refused.has_value()) return;
  v1::AgentMessage message;
  *message.mutable_refused() = *agent.refused;
  Tell(agent, std::move(message));
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
  if (!agent.notice.has_value() || agent.notice->said || !agent.Welcomed()) {
    return;
  }
  const bool all = std::all_of(
      agent.rank_processes.begin(), agent.rank_processes.end(),
      [&agent](const auto& entry) {
        const RankProcess& rank = entry.second;
        return rank.ended || rank.at_boundary || agent.Awaited(rank);
      });
  if (!all) return;
  agent.notice->said = true;
  v1::AgentMessage message;
  message.mutable_notice_seen()->set_notice(agent.notice->number);
  message.mutable_notice_seen()->set_generation(agent.running->generation);
  Tell(agent, std::move(message));
}

void SaySetupEnded(AgentState& agent) {
  if (!agent.Welcomed() || !agent.owes_setup_ended ||
      !agent.setup.ended().has_value()) {
    return;
  }
  agent.owes_setup_ended = false;
  v1::AgentMessage message;
  *message.mutable_setup_ended() = *agent.setup.ended();
  Tell(agent, std::move(message));
}

void SayFactChanges(AgentState& agent) {
  if (!agent.Welcomed()) return;
  for (v1::FactChange& change : agent.fact_changes) {
    v1::AgentMessage message;
    *message.mutable_fact_change() = std::move(change);
    if (agent.takes_fact_changes) Tell(agent, std::move(message));
  }
  agent.fact_changes.clear();
}

void SayLeaving(AgentState& agent) {
  v1::AgentMessage message;
  message.mutable_leaving()->set_reason(
      absl::StrCat("signal ", agent.leave.signal));
  // The daemon may have set any notice time; the clamp keeps the message valid.
  ToProto(
      std::clamp(agent.limits.notice_time, absl::ZeroDuration(), kDeadlineMax),
      message.mutable_leaving()->mutable_deadline());
  Tell(agent, std::move(message));
}

}  // namespace rollcall
