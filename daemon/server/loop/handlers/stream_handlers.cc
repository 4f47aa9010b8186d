#include "daemon/server/loop/handlers/stream_handlers.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/membership/welcome.h"
#include "daemon/server/loop/acts/job_steps.h"
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

// The right with which an authenticated Hello attends. `live`: its job; may be
// null.
AgentRight RightOf(const LoopState& loop, const v1::Hello& hello,
                   const LiveJob* live) {
  if (!hello.has_node_credential()) {
    const std::string token = loop.access.MakerOf(hello);
    return {token, token.empty()};
  }
  if (live == nullptr || live->job.end().has_value()) return {};
  return {live->job.node_epochs().TokenOf(hello.node()), true};
}

// Ends a refused session, now or later.
void TurnAway(LoopState& loop, SessionId id, const Denial& denial) {
  loop.Later(denial.wait, [&loop, id, status = denial.status] {
    Session* session = loop.sessions.Find(id);
    if (session != nullptr) loop.sessions.Close(*session, status);
  });
  // The Hello or the introduction has come, so hello_timeout no longer applies.
  Session* session = loop.sessions.Find(id);
  if (session != nullptr) {
    loop.sessions.SetExpiry(*session, absl::InfiniteFuture());
  }
}

// Tells an agent that comes late how the job ended, and disconnects it after
// one lease. ForHello ensures that an agent that had no part in the run does
// not learn of a success.
void AnswerEnded(LoopState& loop, Session& session, const HelloCame& came,
                 const EndedJob& ended) {
  if (!came.hello.run().empty() && came.hello.run() != ended.status.run()) {
    v1::Refusal refusal;
    refusal.set_code(v1::REFUSAL_CODE_OTHER_RUN);
    refusal.set_text(absl::StrCat("the last run of job ", came.hello.job(),
                                  " here was ", ended.status.run(), ", not ",
                                  came.hello.run(), ", and it has ended"));
    return loop.sessions.Close(session, absl::StatusCode::kAborted, refusal);
  }
  v1::DaemonMessage message;
  *message.mutable_end() = ended.end;
  // Only an agent with a credential gets a new one, because a token does not
  // prove that the agent belongs to that run. With a credential for any name
  // and incarnation, a client could act as a member of that run's world.
  const std::string credential =
      came.hello.has_node_credential()
          ? loop.access.Credential(ended.status.run(), came.hello,
                                   ended.node_epochs.EpochOf(came.hello.node()))
          : "";
  loop.sessions.Send(session,
                     WelcomeOf(ended.status.run(), ended.settings, credential));
  loop.sessions.Send(session, message);
  loop.sessions.SetExpiry(session, loop.Now() + loop.options.limits.lease);
}

}  // namespace

void On(LoopState& loop, StreamOpened& opened) {
  loop.sessions.Open(opened.session, std::move(opened.stream), loop.Now());
}

void On(LoopState& loop, IntroductionCame& came) {
  Session* const session = loop.sessions.FindOpen(came.session);
  if (session == nullptr) return;
  const absl::Time now = loop.Now();
  if (const absl::Status back = TakeBack(loop, came.hello.job(), now);
      !back.ok()) {
    return loop.sessions.Close(*session, back);
  }
  if (const std::optional<Denial> denial = loop.access.PermitIntroduction(
          came.hello, came.observed_address, loop.jobs.Find(came.hello.job()),
          now)) {
    return TurnAway(loop, came.session, *denial);
  }
  if (loop.options.introduced) loop.options.introduced(came.peer);
  session->stream->Took(came.bytes);
}

void On(LoopState& loop, HelloCame& came) {
  Session* const found = loop.sessions.FindOpen(came.session);
  if (found == nullptr) return;
  Session& session = *found;
  const absl::Time now = loop.Now();
  if (const absl::Status back = TakeBack(loop, came.hello.job(), now);
      !back.ok()) {
    return loop.sessions.Close(session, back);
  }
  // The Hello is checked before a job is created for it.
  const LiveJob* known = loop.jobs.Find(came.hello.job());
  if (came.certificate_names.has_value()) {
    if (const std::optional<Denial> denial = loop.access.PermitName(
            came.hello, *came.certificate_names, came.observed_address, now)) {
      return TurnAway(loop, came.session, *denial);
    }
  }
  Shown shown;
  if (const std::optional<Denial> denial = loop.access.PermitHello(
          came.hello, came.observed_address, known,
          loop.jobs.FindEnded(came.hello.job()), now, shown)) {
    return TurnAway(loop, came.session, *denial);
  }
  if (loop.options.attends) {
    absl::StatusOr<AgentStream> connection =
        loop.options.attends(came.peer, RightOf(loop, came.hello, known));
    if (!connection.ok()) {
      return loop.sessions.Close(session, connection.status());
    }
    session.connection = *std::move(connection);
  }
  const bool returns = known != nullptr && known->job.AwaitsWord(came.hello);
  bool made = false;
  const absl::StatusOr<LiveJob*> live = loop.jobs.ForHello(
      came.hello, loop.access.MakerOf(came.hello), now, &made);
  if (!live.ok()) {
    if (absl::IsPermissionDenied(live.status())) {
      loop.access.TurnedAway(came.hello, came.observed_address,
                             RefusalOf(live.status()).code(), now);
    }
    return loop.sessions.Close(session, live.status());
  }
  loop.sessions.Greet(session);
  if (*live == nullptr) {
    return AnswerEnded(loop, session, came,
                       *loop.jobs.FindEnded(came.hello.job()));
  }
  session.job = came.hello.job();
  session.node = came.hello.node();
  session.address = came.observed_address;
  if (made) StartMade(loop, **live);
  const v1::JoinToken token = came.hello.token();
  // These are secrets that the job does not need.
  came.hello.clear_swept_nonces();
  const std::optional<absl::Duration> clock_offset =
      ClockOffset(came.hello.facts(), came.received_at);
  std::string arrived_at;
  if (loop.options.arrived_at) arrived_at = loop.options.arrived_at(came.peer);
  StepJob(
      loop, **live,
      Attend{came.session, std::move(came.hello),
             std::move(came.observed_address), shown.epoch, shown.commit_proven,
             clock_offset, std::move(arrived_at), std::move(shown.swept)});
  // An agent that the job has refused does not count as a use of the token.
  if (!returns && (*live)->job.Attends(came.session)) loop.access.Used(token);
}

void On(LoopState& loop, MessageCame& came) {
  Session* const session = loop.sessions.Find(came.session);
  if (session == nullptr) return;
  session->stream->Took(came.bytes);
  if (session->closed) return;
  if (session->connection != nullptr) ++*session->connection;
  LiveJob* live = loop.jobs.Find(session->job);
  if (live != nullptr) {
    return StepJob(loop, *live, Said{came.session, std::move(came.message)});
  }
  if (came.message.has_end_seen()) {
    loop.sessions.Close(*session, absl::OkStatus());
  }
}

void On(LoopState& loop, StreamGone& gone) {
  Session* const session = loop.sessions.Find(gone.session);
  if (session == nullptr) return;
  LiveJob* live = loop.jobs.Find(session->job);
  loop.sessions.Remove(*session);
  if (live != nullptr) StepJob(loop, *live, StreamClosed{gone.session});
}

}  // namespace rollcall
