// Loop: the handlers of the agents' streams, from Hello to the end.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/membership/welcome.h"
#include "daemon/server/loop/loop.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {
namespace {

// The clock offset of the node that sent these facts. An implausible clock is a
// large offset, not an error.
std::optional<absl::Duration> ClockOffset(const v1::Facts& facts,
                                          absl::Time received_at) {
  if (!facts.has_wall_clock()) return std::nullopt;
  return absl::Seconds(facts.wall_clock().seconds()) +
         absl::Nanoseconds(facts.wall_clock().nanos()) -
         (received_at - absl::UnixEpoch());
}

}  // namespace

void Loop::On(StreamOpened& opened) {
  sessions_.Open(opened.session, std::move(opened.stream), Now());
}

void Loop::On(HelloCame& came) {
  Session* const found = sessions_.FindOpen(came.session);
  if (found == nullptr) return;
  Session& session = *found;
  const absl::Time now = Now();
  if (const absl::Status back = TakeBack(came.hello.job(), now); !back.ok()) {
    return sessions_.Close(session, back);
  }
  // The Hello is checked before a job is created for it.
  const LiveJob* known = jobs_.Find(came.hello.job());
  if (came.certificate_names.has_value()) {
    if (const std::optional<Denial> denial = access_.PermitName(
            came.hello, *came.certificate_names, came.observed_address, now)) {
      return TurnAway(came.session, *denial);
    }
  }
  Shown shown;
  if (const std::optional<Denial> denial =
          access_.PermitHello(came.hello, came.observed_address, known,
                              jobs_.FindEnded(came.hello.job()), now, shown)) {
    return TurnAway(came.session, *denial);
  }
  if (options_.attends) {
    absl::StatusOr<AgentStream> connection =
        options_.attends(came.peer, RightOf(came.hello, known));
    if (!connection.ok()) {
      return sessions_.Close(session, connection.status());
    }
    session.connection = *std::move(connection);
  }
  const bool returns = known != nullptr && known->job.AwaitsWord(came.hello);
  bool made = false;
  const absl::StatusOr<LiveJob*> live =
      jobs_.ForHello(came.hello, access_.MakerOf(came.hello), now, &made);
  if (!live.ok()) {
    if (absl::IsPermissionDenied(live.status())) {
      access_.TurnedAway(came.hello, came.observed_address,
                         RefusalOf(live.status()).code(), now);
    }
    return sessions_.Close(session, live.status());
  }
  sessions_.Greet(session);
  if (*live == nullptr) {
    return AnswerEnded(session, came, *jobs_.FindEnded(came.hello.job()));
  }
  session.job = came.hello.job();
  session.node = came.hello.node();
  session.address = came.observed_address;
  if (made) Collect((*live)->job, StartJob(**live));
  const v1::JoinToken token = came.hello.token();
  // These are secrets that the job does not need.
  came.hello.clear_swept_nonces();
  const std::optional<absl::Duration> clock_offset =
      ClockOffset(came.hello.facts(), came.received_at);
  std::string arrived_at;
  if (options_.arrived_at) arrived_at = options_.arrived_at(came.peer);
  Step(**live, Attend{came.session, std::move(came.hello),
                      std::move(came.observed_address), shown.epoch,
                      shown.commit_proven, clock_offset, std::move(arrived_at),
                      std::move(shown.swept)});
  // An agent that the job has refused does not count as a use of the token.
  if (!returns && (*live)->job.Attends(came.session)) access_.Used(token);
}

AgentRight Loop::RightOf(const v1::Hello& hello, const LiveJob* live) const {
  if (!hello.has_node_credential()) {
    const std::string token = access_.MakerOf(hello);
    return {token, token.empty()};
  }
  if (live == nullptr || live->job.end().has_value()) return {};
  return {live->job.node_epochs().TokenOf(hello.node()), true};
}

void Loop::TurnAway(SessionId id, const Denial& denial) {
  Later(denial.wait, [this, id, status = denial.status] {
    Session* session = sessions_.Find(id);
    if (session != nullptr) sessions_.Close(*session, status);
  });
  // The Hello has come, so hello_timeout no longer applies.
  Session* session = sessions_.Find(id);
  if (session != nullptr) {
    sessions_.SetExpiry(*session, absl::InfiniteFuture());
  }
}

void Loop::Later(absl::Duration wait, std::function<void()> what) {
  const absl::Time now = Now();
  delayed_.Add(now, now + wait, std::move(what));
}

// Tells an agent that comes late how the job ended, and disconnects it after
// one lease. ForHello ensures that an agent that had no part in the run does
// not learn of a success.
void Loop::AnswerEnded(Session& session, const HelloCame& came,
                       const EndedJob& ended) {
  if (!came.hello.run().empty() && came.hello.run() != ended.status.run()) {
    v1::Refusal refusal;
    refusal.set_code(v1::REFUSAL_CODE_OTHER_RUN);
    refusal.set_text(absl::StrCat("the last run of job ", came.hello.job(),
                                  " here was ", ended.status.run(), ", not ",
                                  came.hello.run(), ", and it has ended"));
    return sessions_.Close(session, absl::StatusCode::kAborted, refusal);
  }
  v1::DaemonMessage message;
  *message.mutable_end() = ended.end;
  // Only an agent with a credential gets a new one, because a token does not
  // prove that the agent belongs to that run. With a credential for any name
  // and incarnation, a client could act as a member of that run's world.
  const std::string credential =
      came.hello.has_node_credential()
          ? access_.Credential(ended.status.run(), came.hello,
                               ended.node_epochs.EpochOf(came.hello.node()))
          : "";
  sessions_.Send(session,
                 WelcomeOf(ended.status.run(), ended.settings, credential));
  sessions_.Send(session, message);
  sessions_.SetExpiry(session, Now() + options_.limits.lease);
}

void Loop::On(MessageCame& came) {
  Session* const session = sessions_.Find(came.session);
  if (session == nullptr) return;
  session->stream->Took(came.bytes);
  if (session->closed) return;
  if (session->connection != nullptr) ++*session->connection;
  LiveJob* live = jobs_.Find(session->job);
  if (live != nullptr) {
    return Step(*live, Said{came.session, std::move(came.message)});
  }
  if (came.message.has_end_seen()) {
    sessions_.Close(*session, absl::OkStatus());
  }
}

void Loop::On(StreamGone& gone) {
  Session* const session = sessions_.Find(gone.session);
  if (session == nullptr) return;
  LiveJob* live = jobs_.Find(session->job);
  sessions_.Remove(*session);
  if (live != nullptr) Step(*live, StreamClosed{gone.session});
}

}  // namespace rollcall
