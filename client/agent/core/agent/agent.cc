#include "client/agent/core/agent/agent.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "client/agent/core/agent/acts/departing.h"
#include "client/agent/core/agent/acts/rank_notices.h"
#include "client/agent/core/agent/acts/rank_requests.h"
#include "client/agent/core/agent/acts/setup_tries.h"
#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "client/agent/core/agent/handlers/leave_requests.h"
#include "client/agent/core/agent/handlers/node_answers.h"
#include "client/agent/core/agent/handlers/rank_events.h"
#include "client/agent/core/agent/handlers/streams.h"
#include "client/agent/core/agent/handlers/worlds.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {
namespace {

void On(AgentState& agent, const FromDaemon& from) {
  const auto kind = from.message.kind_case();
  if (agent.departure.leaves() && kind != v1::DaemonMessage::kEnd) return;
  // These messages contain text from users and other nodes, which is printed on
  // this terminal.
  const bool wordy = kind == v1::DaemonMessage::kWaiting ||
                     kind == v1::DaemonMessage::kAbort ||
                     kind == v1::DaemonMessage::kNotice ||
                     kind == v1::DaemonMessage::kEnd;
  v1::DaemonMessage clean;
  if (wordy) {
    clean = from.message;
    CleanDaemonMessage(clean);
  }
  const v1::DaemonMessage& m = wordy ? clean : from.message;
  switch (kind) {
    case v1::DaemonMessage::kWelcome:
      return OnWelcome(agent, m.welcome());
    case v1::DaemonMessage::kNewCredential:
      return TakeCredential(agent, m.new_credential().node_credential());
    case v1::DaemonMessage::kWaiting:
      return OnWaiting(agent, m.waiting());
    case v1::DaemonMessage::kProposal:
      return OnProposal(agent, m.proposal());
    case v1::DaemonMessage::kCommit:
      return OnCommit(agent, m.commit());
    case v1::DaemonMessage::kAbort:
      return OnAbort(agent, m.abort());
    case v1::DaemonMessage::kEnd:
      return OnEnd(agent, m.end());
    case v1::DaemonMessage::kExchange:
      return OnExchange(agent, m.exchange());
    case v1::DaemonMessage::kStore:
      return SendStoreOutcome(agent, agent.store.Hear(m.store()));
    case v1::DaemonMessage::kNotice:
      return OnNotice(agent, m.notice());
    case v1::DaemonMessage::kCheckRequest:
      agent.actions.push_back(RunChecks{m.check_request().request()});
      return;
    case v1::DaemonMessage::kProbe:
      agent.actions.push_back(RunProbe{m.probe()});
      return;
    case v1::DaemonMessage::kRanksLink:
      return OnRanksLink(agent, m.ranks_link());
    case v1::DaemonMessage::kGroupCheck:
      agent.check_round = m.group_check().round();
      agent.actions.push_back(RunGroupCheck{m.group_check()});
      return;
    // A message of a newer daemon; this agent ignores it.
    case v1::DaemonMessage::KIND_NOT_SET:
      return;
  }
}

void On(AgentState& agent, const AgentTick&) {
  if (agent.attendance.TakeHeartbeat(agent.now)) {
    v1::AgentMessage message;
    v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
    if (agent.starts.took().has_value()) {
      heartbeat.set_ranks_link(true);
      ToProto(*agent.starts.took(), heartbeat.mutable_start_took());
    }
    if (agent.running.has_value()) {
      heartbeat.set_generation(agent.running->generation);
      heartbeat.set_step(agent.running->step);
      heartbeat.set_saved_step(agent.running->saved);
      if (agent.running->pace.has_value()) {
        *heartbeat.mutable_pace() = *agent.running->pace;
      }
    }
    Tell(agent, std::move(message));
  }
  KillUnanswered(agent);
  KillAtNoticeDeadline(agent);
  LeaveAttachedRanksAlone(agent);
  LookForHangs(agent);
  AdvanceSetup(agent);
  if (agent.now >= agent.departure.linger_until()) EndLinger(agent);
  if (agent.leave.TakeDue(agent.now)) {
    Leave(agent, 128 + agent.leave.signal(),
          "asked to leave; the daemon did not answer");
  }
  if (agent.departure.leaves() || agent.attendance.welcomed()) return;
  if (agent.now >= agent.redial.give_up_at()) {
    return Leave(agent,
                 agent.setup.failed() ? ExitCodeOf(*agent.setup.ended())
                                      : kExitRendezvous,
                 agent.redial.GiveUpReason());
  }
  Tell(agent, agent.redial.Silence(agent.now));
  if (agent.attendance.down() && agent.now >= agent.redial.dial_at()) {
    agent.attendance.Dial();
    agent.actions.push_back(Dial{});
  }
}

}  // namespace

Agent::Agent(const v1::Hello& hello, absl::Duration join_timeout,
             const Limits& limits, absl::Time now, int preempt_signal,
             bool attach, uint32_t setup_retries)
    : state_(hello, join_timeout, limits, now, preempt_signal, attach,
             setup_retries) {
  CHECK_NE(hello.incarnation(), 0u);
}

std::vector<AgentAction> Agent::Start() {
  state_.attendance.Dial();
  return {Dial{}};
}

std::vector<AgentAction> Agent::Step(const AgentEvent& event, absl::Time now) {
  // If this fails, the shell broke its promise: our bug, not an input.
  CHECK_GE(now, state_.now);
  // Only the delay since the last step: events that one pass of the loop
  // handles were delayed once.
  const absl::Duration late = now - std::max(NextDeadline(), state_.now);
  state_.now = now;
  state_.actions.clear();
  if (state_.departure.exited()) return {};
  if (late > Limits::late_min) Forgive(state_, late);
  std::visit([this](const auto& e) { On(state_, e); }, event);
  MaybeExit(state_);
  return std::move(state_.actions);
}

}  // namespace rollcall
