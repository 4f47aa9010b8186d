// Agent: the link to the daemon, and what its refusals mean.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

// The daemon never issues a longer credential.
constexpr size_t kCredentialBytesMax = 64;

}  // namespace

void Agent::On(const StreamUp&) {
  v1::AgentMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello = hello_;
  if (!credential_.bytes.empty()) {
    hello.set_node_credential(credential_.bytes);
    if (credential_.incarnation != hello.incarnation()) {
      hello.set_previous_incarnation(credential_.incarnation);
    }
  }
  hello.set_generation_seen(generation_seen_);
  owes_setup_ended_ = setup_.pending();
  hello.set_setting_up(owes_setup_ended_);
  *hello.mutable_resume_state() = ResumeStateNow();
  actions_.push_back(Say{std::move(message)});
}

v1::ResumeState Agent::ResumeStateNow() const {
  v1::ResumeState resume_state;
  if (preparing_.has_value() && preparing_->done.has_value()) {
    resume_state.set_prepared_generation(preparing_->world.generation());
  }
  if (!running_.has_value()) return resume_state;
  resume_state.set_running_generation(running_->generation);
  if (running_->world_bytes.size() + running_->world_commit_bytes.size() <=
      Limits::resume_state_world_bytes_max) {
    resume_state.set_world(running_->world_bytes);
    resume_state.set_world_commit(running_->world_commit_bytes);
    resume_state.set_proof(running_->proof);
  }
  return resume_state;
}

void Agent::TakeCredential(const std::string& credential) {
  if (credential.size() > kCredentialBytesMax) return;
  credential_ = {credential, hello_.incarnation()};
}

void Agent::OnWelcome(const v1::Welcome& welcome) {
  if (link_ == Link::kAttending) return;
  link_ = Link::kAttending;
  hello_.set_run(welcome.run());
  TakeCredential(welcome.node_credential());
  limits_.lease = FromProto(welcome.lease());
  limits_.daemon_grace = FromProto(welcome.daemon_grace());
  limits_.stop_grace = FromProto(welcome.stop_grace());
  if (welcome.settings().has_notice_time()) {
    limits_.notice_time = FromProto(welcome.settings().notice_time());
  }
  if (welcome.settings().has_hang_timeout()) {
    limits_.hang_timeout = FromProto(welcome.settings().hang_timeout());
  }
  if (welcome.settings().has_start_timeout()) {
    limits_.start_timeout = FromProto(welcome.settings().start_timeout());
  }
  if (welcome.settings().has_setup_timeout()) {
    limits_.setup_timeout = FromProto(welcome.settings().setup_timeout());
  }
  heartbeat_ =
      std::max(FromProto(welcome.heartbeat_interval()), absl::Milliseconds(10));
  next_heartbeat_ = now_ + heartbeat_;
  if (redial_.welcomed()) Tell(Report::Kind::kState, "attending again");
  redial_.Welcomed();
  if (preparing_.has_value()) preparing_->said = false;
  SayPreparedIfReady();
  SayRefused();
  stopped_.said = false;
  SayStoppedIfSettled();
  SayExits();
  SayStallsAgain();
  if (notice_.has_value()) notice_->said = false;
  SayNoticeSeenIfThere();
  for (v1::ExchangeIn& values : exchanges_.ToRepeat()) {
    v1::AgentMessage message;
    *message.mutable_exchange() = std::move(values);
    Tell(std::move(message));
  }
  takes_fact_changes_ = welcome.takes_fact_changes();
  SayFactChanges();
  if (leave_.signal != 0) SayLeaving();
  MaybeBeginSetup(welcome);
}

// Sends the exits again: a Hello does not contain them, and a restarted daemon
// does not know them.
void Agent::SayExits() {
  if (!running_.has_value()) return;
  for (const v1::RankExited& exited : running_->exits) {
    v1::AgentMessage message;
    *message.mutable_rank_exited() = exited;
    Tell(std::move(message));
  }
}

void Agent::On(const StreamDown& down) {
  const bool attended = link_ == Link::kAttending;
  link_ = Link::kDown;
  next_heartbeat_ = absl::InfiniteFuture();
  store_.StreamEnded();
  EndGroupCheck();
  if (exit_.has_value()) return;
  redial_.Ended(down, attended, limits_, now_);
  if (attended && !down.refusal.has_value()) {
    Tell(Report::Kind::kWarning,
         absl::StrCat("lost the daemon (", redial_.last_error(),
                      "); redialling for ",
                      absl::FormatDuration(limits_.daemon_grace),
                      !rank_processes_.empty() ? ", the ranks run on" : ""));
  }
  if (attended) Tell(redial_.TurnedAway(down, limits_));
  Refused(down);
  if (exit_.has_value()) return;
  Tell(redial_.Unreachable(down, now_));
  redial_.Schedule(down.jitter, limits_, now_);
}

void Agent::Refused(const StreamDown& down) {
  const v1::RefusalCode code = down.refusal.has_value()
                                   ? down.refusal->code()
                                   : v1::REFUSAL_CODE_UNSPECIFIED;
  const std::string& why = redial_.last_error();
  switch (code) {
    case v1::REFUSAL_CODE_LOST:
      return AttendAgain(down.fresh_incarnation, why);
    case v1::REFUSAL_CODE_NAME_TAKEN: {
      std::optional<Report> news;
      if (!redial_.AwaitName(limits_, now_, news)) Leave(kExitRefused, why);
      return Tell(std::move(news));
    }
    case v1::REFUSAL_CODE_CREDENTIAL:
      // A daemon that lost its key rejects the credential; the agent's token
      // may still be valid, so the agent tries it.
      if (credential_.bytes.empty()) return Leave(kExitRefused, why);
      credential_ = {};
      return;
    case v1::REFUSAL_CODE_UNAUTHENTICATED:
    case v1::REFUSAL_CODE_TOKEN_EXPIRED:
    case v1::REFUSAL_CODE_TOKEN_REVOKED:
    case v1::REFUSAL_CODE_TOKEN_USED_UP:
    case v1::REFUSAL_CODE_ROLE:
    case v1::REFUSAL_CODE_OTHER_JOB:
      return Leave(kExitRefused, why);
    // A drained node that is evicted has finished: its End was lost with the
    // stream.
    case v1::REFUSAL_CODE_EVICTED:
      return Leave(drained_ ? 0 : kExitRefused, why);
    case v1::REFUSAL_CODE_SETTINGS:
      return Leave(kExitUsage, why);
    case v1::REFUSAL_CODE_OTHER_RUN:
      if (!HasRun()) return AttendOtherRun(down.fresh_incarnation);
      return Leave(kExitRendezvous, why);
    case v1::REFUSAL_CODE_REPLACED:
    case v1::REFUSAL_CODE_INVALID:
    case v1::REFUSAL_CODE_LIMIT:
      return Leave(kExitRendezvous, why);
    // Another daemon leads or will lead soon; the agent tries the leader's
    // endpoints.
    case v1::REFUSAL_CODE_NOT_LEADER:
      return redial_.SeekLeader(limits_);
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
      return Leave(kExitRefused, why);
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return Leave(kExitRendezvous, why);
    default:
      return;  // Redial.
  }
}

void Agent::AttendAgain(uint64_t incarnation, const std::string& why) {
  Tell(Report::Kind::kWarning,
       absl::StrCat(why, "; attending with a new incarnation"));
  hello_.set_incarnation(incarnation);
  refused_.reset();
  DropPreparation();
  EndGeneration(v1::REASON_CODE_LOST_LEASE, why, Keep::kNobody);
  // The ranks are being stopped, and Stopped is to be sent: no world without
  // this node then needs to wait for them.
  stopped_.generation = ended_generation_ > 0 ? generation_seen_ : 0;
}

// The daemon lost its journal before this agent was in a committed world. The
// agent has no state to continue, and its token is still valid.
void Agent::AttendOtherRun(uint64_t incarnation) {
  AttendAgain(incarnation, redial_.last_error());
  stopped_.generation = 0;
  hello_.clear_run();
  credential_ = {};
  generation_seen_ = 0;
  starts_.Forget();
}

}  // namespace rollcall
