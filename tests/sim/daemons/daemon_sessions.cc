// The sessions of Daemon: which agents are let in, and how their streams end.
#include <utility>

#include "daemon/base/durations.h"
#include "daemon/core/membership/welcome.h"
#include "daemon/security/secrets/incarnation_nonce.h"
#include "tests/sim/daemons/credentials.h"
#include "tests/sim/daemons/daemon.h"

namespace rollcall::sim {
namespace {

Ended Denied(absl::StatusCode code, v1::RefusalCode refusal, const char* text) {
  Ended ended{absl::Status(code, text), v1::Refusal()};
  ended.refusal->set_code(refusal);
  ended.refusal->set_text(text);
  return ended;
}

}  // namespace

void Daemon::OnHello(Session& session, SessionId id, v1::Hello& hello) {
  if (set_back_) TakeBack();
  if (hello.has_node_credential()) checker_.Tries(hello, EpochShown(hello));
  if (const std::optional<Ended> denied = Permit(hello)) {
    return CloseSession(id, denied->status.code(), *denied->refusal);
  }
  session.greeted = true;
  if (!job_.has_value() && !ended_) MakeJob();
  if (!job_.has_value()) return AnswerEnded(session, id, hello);
  session.attends = true;
  Attend attend;
  attend.session = id;
  attend.observed_address = hello.facts().interfaces(0).addresses(0).address();
  attend.epoch = EpochShown(hello).value_or(0);
  attend.commit_proven =
      !hello.resume_state().proof().empty() &&
      hello.resume_state().proof() ==
          ProofOf(hello.run(), hello.resume_state().running_generation(),
                  hello.resume_state().world(),
                  hello.resume_state().world_commit());
  for (const std::string& nonce : hello.swept_nonces()) {
    attend.swept.push_back(IncarnationOf(hello.job(), hello.node(), nonce));
  }
  hello.clear_swept_nonces();
  attend.hello = std::move(hello);
  Step(attend);
}

std::optional<Ended> Daemon::Permit(const v1::Hello& hello) const {
  if (hello.credential_case() != v1::Hello::kNodeCredential) {
    if (!job_.has_value() || !job_->HasCredential(hello)) return std::nullopt;
    return Denied(absl::StatusCode::kUnauthenticated,
                  v1::REFUSAL_CODE_CREDENTIAL, "it is in already");
  }
  const std::optional<uint64_t> epoch = EpochShown(hello);
  const bool over = !job_.has_value() && !ended_;
  if (over || !epoch.has_value()) {
    return Denied(absl::StatusCode::kUnauthenticated,
                  v1::REFUSAL_CODE_CREDENTIAL, "not the credential given");
  }
  if (!job_.has_value()) return std::nullopt;
  if (!job_->IsRun(hello.run())) {
    if (job_->MayAdopt()) return std::nullopt;
    return Denied(absl::StatusCode::kAborted, v1::REFUSAL_CODE_OTHER_RUN,
                  "another run");
  }
  if (!job_->CredentialStands(hello)) {
    return Denied(absl::StatusCode::kAborted, v1::REFUSAL_CODE_REPLACED,
                  "another agent has taken the place of this one");
  }
  const NodeEpochs& epochs = job_->EpochsOf(hello.run());
  if (epochs.WasRaisedPast(hello.node(), *epoch)) {
    return Denied(absl::StatusCode::kPermissionDenied, v1::REFUSAL_CODE_EVICTED,
                  "evicted or drained");
  }
  if (*epoch != epochs.EpochOf(hello.node())) {
    return Denied(absl::StatusCode::kUnauthenticated,
                  v1::REFUSAL_CODE_CREDENTIAL, "of no known epoch");
  }
  return std::nullopt;
}

void Daemon::AnswerEnded(Session& session, SessionId id,
                         const v1::Hello& hello) {
  if (!hello.run().empty() && hello.run() != journal_.run) {
    const Ended denied = Denied(absl::StatusCode::kAborted,
                                v1::REFUSAL_CODE_OTHER_RUN, "another run");
    return CloseSession(id, denied.status.code(), *denied.refusal);
  }
  auto welcome = std::make_shared<v1::DaemonMessage>(
      WelcomeOf(journal_.run, settings_.job, /*credential=*/""));
  auto end = std::make_shared<v1::DaemonMessage>();
  *end->mutable_end() = *journal_.end;
  network_.Send(session.stream, kDown, ToAgent(std::move(welcome)));
  network_.Send(session.stream, kDown, ToAgent(std::move(end)));
  session.expires = Local() + FromProto(settings_.job.lease());
}

void Daemon::CloseSession(SessionId id, absl::StatusCode code,
                          const v1::Refusal& refusal) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end() || at->second.closed) return;
  at->second.closed = true;
  Ended ended{absl::Status(code, refusal.text()), std::nullopt};
  if (refusal.code() != v1::REFUSAL_CODE_UNSPECIFIED) ended.refusal = refusal;
  network_.Send(at->second.stream, kDown, std::move(ended));
  world_.Schedule(world_.now() + world_.chance.Between(kMicro, 50 * kMilli),
                  Wake::Kind::kStreamGone, 0, id);
}

void Daemon::ExpireSessions() {
  if (!ended_) return;
  const absl::Time now = Local();
  for (auto& [id, session] : sessions_) {
    if (session.expires > now) continue;
    session.expires = absl::InfiniteFuture();
    CloseSession(id, absl::StatusCode::kOk, v1::Refusal());
  }
}

}  // namespace rollcall::sim
