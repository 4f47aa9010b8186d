#include "client/agent/core/agent/handlers/streams.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/agent/core/agent/acts/departing.h"
#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/setup_tries.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "client/agent/core/agent/acts/world_end.h"
#include "daemon/base/durations.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

v1::ResumeState ResumeStateNow(const AgentState& agent) {
  v1::ResumeState resume_state;
  if (agent.change.has_value() && agent.change->prepared()) {
    resume_state.set_prepared_generation(agent.change->generation());
  }
  if (!agent.running.has_value()) return resume_state;
  resume_state.set_running_generation(agent.running->generation);
  if (agent.running->world_bytes.size() +
          agent.running->world_commit_bytes.size() <=
      Limits::resume_state_world_bytes_max) {
    resume_state.set_world(agent.running->world_bytes);
    resume_state.set_world_commit(agent.running->world_commit_bytes);
    resume_state.set_proof(agent.running->proof);
  }
  return resume_state;
}

void AttendAgain(AgentState& agent, uint64_t incarnation,
                 const std::string& why) {
  Tell(agent, Report::Kind::kWarning,
       absl::StrCat(why, "; attending with a new incarnation"));
  agent.hello.set_incarnation(incarnation);
  agent.answer.Forget();
  DropPreparation(agent);
  EndGeneration(agent, v1::REASON_CODE_LOST_LEASE, why, Keep::kNobody);
  // The ranks are being stopped, and Stopped is to be sent: no world without
  // this node then needs to wait for them.
  if (agent.ended_generation > 0) agent.answer.Stopped(agent.generation_seen);
}

// The daemon lost its journal before this agent was in a committed world. The
// agent has no state to continue, and its token is still valid.
void AttendOtherRun(AgentState& agent, uint64_t incarnation) {
  AttendAgain(agent, incarnation, agent.redial.last_error());
  agent.answer.Forget();
  agent.hello.clear_run();
  agent.credential.Forget();
  agent.generation_seen = 0;
  agent.starts.Forget();
}

// The daemon knows neither the agent's credential nor whether its token is that
// of the same agent, so the agent attends as a new one. Its ranks end first,
// and its nonce proves that: then the next world does not wait for them.
void AttendAsNew(AgentState& agent, const StreamDown& down) {
  const std::string& why = agent.redial.last_error();
  if (!agent.rank_processes.empty()) {
    return EndGeneration(agent, v1::REASON_CODE_LOST_LEASE, why, Keep::kNobody);
  }
  if (!down.nonce.empty()) {
    auto& swept = *agent.hello.mutable_swept_nonces();
    if (swept.size() == Limits::swept_max) swept.erase(swept.begin());
    *swept.Add() = down.nonce;
  }
  AttendAgain(agent, down.fresh_incarnation, why);
}

void Refused(AgentState& agent, const StreamDown& down) {
  const v1::RefusalCode code = down.refusal.has_value()
                                   ? down.refusal->code()
                                   : v1::REFUSAL_CODE_UNSPECIFIED;
  const std::string& why = agent.redial.last_error();
  switch (code) {
    case v1::REFUSAL_CODE_LOST:
      return AttendAgain(agent, down.fresh_incarnation, why);
    case v1::REFUSAL_CODE_NAME_TAKEN: {
      std::optional<Report> news;
      if (!agent.redial.AwaitName(agent.limits, agent.now, news)) {
        Leave(agent, kExitRefused, why);
      }
      return Tell(agent, std::move(news));
    }
    case v1::REFUSAL_CODE_CREDENTIAL:
      // The daemon has lost its key, or the credential has ended by the
      // daemon's clock. The agent's token may still be valid.
      if (agent.credential.held()) return agent.credential.Forget();
      // An agent that was welcomed before becomes a new one.
      if (!agent.hello.run().empty()) return AttendAsNew(agent, down);
      return Leave(agent, kExitRefused, why);
    case v1::REFUSAL_CODE_UNAUTHENTICATED:
    case v1::REFUSAL_CODE_TOKEN_EXPIRED:
    case v1::REFUSAL_CODE_TOKEN_REVOKED:
    case v1::REFUSAL_CODE_TOKEN_USED_UP:
    case v1::REFUSAL_CODE_ROLE:
    case v1::REFUSAL_CODE_OTHER_JOB:
      return Leave(agent, kExitRefused, why);
    // A drained node that is evicted has finished: its End was lost with the
    // stream.
    case v1::REFUSAL_CODE_EVICTED:
      return Leave(agent, agent.notices.drained() ? 0 : kExitRefused, why);
    case v1::REFUSAL_CODE_SETTINGS:
      return Leave(agent, kExitUsage, why);
    case v1::REFUSAL_CODE_OTHER_RUN:
      if (!agent.HasRun()) return AttendOtherRun(agent, down.fresh_incarnation);
      return Leave(agent, kExitRendezvous, why);
    case v1::REFUSAL_CODE_REPLACED:
    case v1::REFUSAL_CODE_INVALID:
    case v1::REFUSAL_CODE_LIMIT:
      return Leave(agent, kExitRendezvous, why);
    // Another daemon leads or will lead soon; the agent tries the leader's
    // endpoints.
    case v1::REFUSAL_CODE_NOT_LEADER:
      return agent.redial.SeekLeader(agent.limits);
    // NO_JOB: the job may be created later. SLOW: this agent may read fast
    // enough on a new stream. REDIALED: the stream that the daemon took for the
    // older one may have been the current one.
    case v1::REFUSAL_CODE_REDIALED:
    case v1::REFUSAL_CODE_NO_JOB:
    case v1::REFUSAL_CODE_SLOW:
      return;
    default:
      break;
  }
  switch (down.status.code()) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Leave(agent, kExitRefused, why);
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return Leave(agent, kExitRendezvous, why);
    default:
      return;  // Redial.
  }
}

}  // namespace

void On(AgentState& agent, const StreamUp&) {
  v1::AgentMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello = agent.hello;
  agent.credential.AddTo(hello);
  hello.set_generation_seen(agent.generation_seen);
  hello.set_setting_up(agent.setup.Announce());
  *hello.mutable_resume_state() = ResumeStateNow(agent);
  agent.actions.push_back(Say{std::move(message)});
}

void On(AgentState& agent, const StreamDown& down) {
  const bool attended = agent.attendance.End();
  agent.store.StreamEnded();
  EndGroupCheck(agent);
  if (agent.departure.leaves()) return;
  agent.redial.Ended(down, attended, agent.limits, agent.now);
  if (attended && !down.refusal.has_value()) {
    Tell(agent, Report::Kind::kWarning,
         absl::StrCat(
             "lost the daemon (", agent.redial.last_error(),
             "); redialling for ",
             absl::FormatDuration(agent.limits.daemon_grace),
             !agent.rank_processes.empty() ? ", the ranks run on" : ""));
  }
  if (attended) Tell(agent, agent.redial.TurnedAway(down, agent.limits));
  Refused(agent, down);
  if (agent.departure.leaves()) return;
  Tell(agent, agent.redial.Unreachable(down, agent.now));
  agent.redial.Schedule(down.jitter, agent.limits, agent.now);
}

void TakeCredential(AgentState& agent, const std::string& credential) {
  agent.credential.Take(credential, agent.hello.incarnation());
}

void OnWelcome(AgentState& agent, const v1::Welcome& welcome) {
  const absl::Duration heartbeat = FromProto(welcome.heartbeat_interval());
  if (!agent.attendance.Welcome(heartbeat, agent.now)) return;
  agent.hello.set_run(welcome.run());
  TakeCredential(agent, welcome.node_credential());
  agent.limits.lease = FromProto(welcome.lease());
  agent.limits.daemon_grace = FromProto(welcome.daemon_grace());
  agent.limits.stop_grace = FromProto(welcome.stop_grace());
  if (welcome.settings().has_notice_time()) {
    agent.limits.notice_time = FromProto(welcome.settings().notice_time());
  }
  if (welcome.settings().has_hang_timeout()) {
    agent.limits.hang_timeout = FromProto(welcome.settings().hang_timeout());
  }
  if (welcome.settings().has_start_timeout()) {
    agent.limits.start_timeout = FromProto(welcome.settings().start_timeout());
  }
  if (welcome.settings().has_setup_timeout()) {
    agent.limits.setup_timeout = FromProto(welcome.settings().setup_timeout());
  }
  if (agent.redial.welcomed()) {
    Tell(agent, Report::Kind::kState, "attending again");
  }
  agent.redial.Welcomed();
  if (agent.change.has_value()) agent.change->SayAgain();
  SayPreparedIfReady(agent);
  agent.answer.NewStream();
  SayAnswerIfDue(agent);
  SayExits(agent);
  SayStallsAgain(agent);
  agent.notices.NewStream();
  SayNoticeSeenIfThere(agent);
  for (v1::ExchangeIn& values : agent.exchanges.ToRepeat()) {
    v1::AgentMessage message;
    *message.mutable_exchange() = std::move(values);
    Tell(agent, std::move(message));
  }
  agent.fact_changes.Welcomed(welcome.takes_fact_changes());
  SayFactChanges(agent);
  if (agent.leave.made()) SayLeaving(agent);
  MaybeBeginSetup(agent, welcome);
}

}  // namespace rollcall
