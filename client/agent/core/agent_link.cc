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
constexpr size_t kRefusalBytesMax = 4 << 10;

}  // namespace

void Agent::On(const StreamUp&) {
  v1::AgentMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello = hello_;
  if (!credential_.empty()) {
    hello.set_node_credential(credential_);
    if (credential_of_ != hello.incarnation()) {
      hello.set_previous_incarnation(credential_of_);
    }
  }
  hello.set_generation_seen(generation_seen_);
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
  credential_ = credential;
  credential_of_ = hello_.incarnation();
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
  heartbeat_ =
      std::max(FromProto(welcome.heartbeat_interval()), absl::Milliseconds(10));
  next_heartbeat_ = now_ + heartbeat_;
  redial_delay_.LetIn();
  leader_sought_ = false;
  name_taken_until_ = absl::InfiniteFuture();
  last_error_.clear();
  dial_failures_.LetIn();
  if (welcomed_) {
    Tell(Report::Kind::kState, "attending again");
  }
  welcomed_ = true;
  if (preparing_.has_value()) preparing_->said = false;
  SayPreparedIfReady();
  SayRefused();
  stopped_said_ = false;
  SayStoppedIfSettled();
  SayExits();
  SayStallsAgain();
  if (notice_.has_value()) notice_->said = false;
  SayNoticeSeenIfThere();
  for (auto& [key, exchange] : exchanges_) {
    if (exchange.said) SayExchange(key, exchange);
  }
  SayAnswered();
  if (leave_signal_ != 0) SayLeaving();
}

// A Hello does not contain exits, and a restarted daemon knows of none.
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
  if (exit_.has_value()) return;
  if (attended) {
    give_up_at_ = now_ + limits_.daemon_grace;
    dial_failures_.Lost(now_);
  }
  last_error_ =
      Printable(down.refusal.has_value() && !down.refusal->text().empty()
                    ? std::string_view(down.refusal->text())
                    : std::string_view(down.status.message().data(),
                                       down.status.message().size()),
                kRefusalBytesMax);
  if (attended && !down.refusal.has_value()) {
    Tell(Report::Kind::kWarning,
         absl::StrCat("lost the daemon (", last_error_, "); redialling for ",
                      absl::FormatDuration(limits_.daemon_grace),
                      !rank_processes_.empty() ? ", the ranks run on" : ""));
  }
  if (attended) TellTurnedAway(down);
  Refused(down);
  if (exit_.has_value()) return;
  TellUnreachable(down);
  Redial(down.jitter);
}

// A daemon that cannot work (a full disk, for example) ends the stream again
// and again until the cause is removed; this is reported once.
void Agent::TellTurnedAway(const StreamDown& down) {
  if (!down.refusal.has_value()) {
    turned_away_.clear();
  } else if (down.refusal->code() == v1::REFUSAL_CODE_UNSPECIFIED &&
             last_error_ != turned_away_) {
    turned_away_ = last_error_;
    Tell(Report::Kind::kWarning,
         absl::StrCat("the daemon cannot go on: ", last_error_,
                      "; redialling for ",
                      absl::FormatDuration(limits_.daemon_grace)));
  }
}

void Agent::TellUnreachable(const StreamDown& down) {
  if (!dial_failures_.Failed(down.endpoint, last_error_, now_)) return;
  const bool refused = down.refusal.has_value() || down.other_daemon;
  Tell(Report::Kind::kUnreachable,
       absl::StrCat(refused     ? "not let in yet: "
                    : welcomed_ ? "the daemon does not answer: "
                                : "no daemon answers yet: ",
                    last_error_));
}

void Agent::TellSilence() {
  if (link_ == Link::kAttending || now_ < dial_failures_.silent_until()) return;
  dial_failures_.SaidNothing(now_);
  Tell(Report::Kind::kUnreachable,
       absl::StrCat(
           welcomed_ ? "the daemon does not answer" : "no daemon answers yet",
           ": no answer and no error so far; a name server or a "
           "firewall may be in the way"));
}

void Agent::Redial(double jitter) {
  const absl::Duration most =
      leader_sought_ ? 2 * limits_.redial_leader : limits_.redial_max;
  redial_at_ = std::min(now_ + redial_delay_.Next(jitter, most), give_up_at_);
}

void Agent::Refused(const StreamDown& down) {
  const v1::RefusalCode code = down.refusal.has_value()
                                   ? down.refusal->code()
                                   : v1::REFUSAL_CODE_UNSPECIFIED;
  switch (code) {
    case v1::REFUSAL_CODE_LOST:
      return AttendAgain(down.fresh_incarnation, last_error_);
    case v1::REFUSAL_CODE_NAME_TAKEN:
      return NameTaken(last_error_);
    case v1::REFUSAL_CODE_CREDENTIAL:
      // A daemon that lost its key accepts the token again.
      if (credential_.empty()) return Leave(kExitRefused, last_error_);
      credential_.clear();
      return;
    case v1::REFUSAL_CODE_UNAUTHENTICATED:
    case v1::REFUSAL_CODE_TOKEN_EXPIRED:
    case v1::REFUSAL_CODE_TOKEN_REVOKED:
    case v1::REFUSAL_CODE_TOKEN_USED_UP:
    case v1::REFUSAL_CODE_ROLE:
    case v1::REFUSAL_CODE_OTHER_JOB:
      return Leave(kExitRefused, last_error_);
    // A drained node whose End was lost with the stream has finished.
    case v1::REFUSAL_CODE_EVICTED:
      return Leave(drained_ ? 0 : kExitRefused, last_error_);
    case v1::REFUSAL_CODE_SETTINGS:
      return Leave(kExitUsage, last_error_);
    case v1::REFUSAL_CODE_OTHER_RUN:
      if (!HasRun()) return AttendOtherRun(down.fresh_incarnation);
      return Leave(kExitRendezvous, last_error_);
    case v1::REFUSAL_CODE_REPLACED:
    case v1::REFUSAL_CODE_INVALID:
    case v1::REFUSAL_CODE_LIMIT:
      return Leave(kExitRendezvous, last_error_);
    // Another daemon leads or will lead soon; the agent tries the leader's
    // endpoints.
    case v1::REFUSAL_CODE_NOT_LEADER:
      leader_sought_ = true;
      redial_delay_.AtMost(limits_.redial_leader);
      return;
    // The job may be created later; a slow reader may catch up; the stream that
    // was taken for the older one may have been the current one.
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
      return Leave(kExitRefused, last_error_);
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return Leave(kExitRendezvous, last_error_);
    default:
      return;  // Redial.
  }
}

// The name may be held by this node's own previous agent, whose lease still
// runs.
void Agent::NameTaken(const std::string& text) {
  if (name_taken_until_ == absl::InfiniteFuture()) {
    name_taken_until_ = now_ + limits_.lease + absl::Seconds(1);
    Tell(Report::Kind::kWarning,
         absl::StrCat(text, "; trying for ",
                      absl::FormatDuration(limits_.lease + absl::Seconds(1)),
                      " in case it is gone"));
  } else if (now_ >= name_taken_until_) {
    Leave(kExitRefused, text);
  }
}

void Agent::AttendAgain(uint64_t incarnation, const std::string& why) {
  Tell(Report::Kind::kWarning,
       absl::StrCat(why, "; attending with a new incarnation"));
  hello_.set_incarnation(incarnation);
  refused_.reset();
  DropPreparation();
  EndGeneration(v1::REASON_CODE_LOST_LEASE, why, Keep::kNobody);
  // No world without this node needs to wait for its ranks any longer.
  stopped_to_say_ = ended_generation_ > 0 ? generation_seen_ : 0;
}

// The daemon lost its journal before this agent was in a running world. It has
// no state to continue, and the agent's token is still valid.
void Agent::AttendOtherRun(uint64_t incarnation) {
  AttendAgain(incarnation, last_error_);
  stopped_to_say_ = 0;
  hello_.clear_run();
  credential_.clear();
  generation_seen_ = 0;
  ranks_link_.reset();
}

}  // namespace rollcall
