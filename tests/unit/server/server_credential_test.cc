// The credential that an agent shows instead of its token once it is admitted.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/codec/world_codec.h"
#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

using CredentialTest = AccessTest;

TEST_F(CredentialTest, ACredentialTakesTheTokensPlace) {
  StartJob(2);
  const v1::Hello hello = HelloOf("a");
  HandAgent first(Dial());
  ASSERT_TRUE(first.SayHello(hello));
  const auto welcome = first.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  HandAgent again(Dial());
  ASSERT_TRUE(again.SayHello(Next(hello, *welcome)));
  const auto same = again.HearWelcome();
  ASSERT_TRUE(same.has_value());
  EXPECT_FALSE(same->node_credential().empty());
  ExpectRefused(first.End(), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_REDIALED);
  EXPECT_TRUE(Refused().empty());
}

TEST_F(CredentialTest, ACredentialSpeaksForNobodyElse) {
  ServerOptions options = Options();
  options.log_level = Log::Level::kWarning;
  testing::internal::CaptureStderr();
  StartJob(3, std::move(options));
  HandAgent a(Dial()), b(Dial());
  const v1::Hello hello = HelloOf("a");
  ASSERT_TRUE(a.SayHello(hello));
  const auto welcome = a.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  ASSERT_TRUE(b.SayHello(HelloOf("b")));
  ASSERT_TRUE(b.IsWelcome());
  const std::function<void(v1::Hello&)> changes[] = {
      // A credential of another node: b attends, c never did.
      [](v1::Hello& h) { h.set_node("b"); },
      [](v1::Hello& h) { h.set_node("c"); },
      // A credential of another incarnation, and of another run.
      [](v1::Hello& h) { h.set_incarnation(h.incarnation() + 1); },
      [](v1::Hello& h) { h.set_run("another"); },
      [](v1::Hello& h) { h.clear_run(); },
      // A credential that claims to be the launcher's.
      [](v1::Hello& h) { h.set_launcher(true); },
  };
  for (const auto& change : changes) {
    v1::Hello stolen = Next(hello, *welcome);
    change(stolen);
    ExpectRefused(Turned(stolen), grpc::StatusCode::UNAUTHENTICATED,
                  v1::REFUSAL_CODE_CREDENTIAL);
  }
  EXPECT_EQ(Refused(), (Counts{{"credential", 6}}));
  EXPECT_EQ(StatusOf("train").nodes_size(), 2);
  server_.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  // The sixth refusal of one address is only counted, not logged.
  EXPECT_EQ(Times(log, "event=denied code=credential"), 5u) << log;
}

TEST_F(CredentialTest, ACredentialThatHasEndedIsNone) {
  ServerOptions options = Options();
  options.limits.credential_ttl = absl::ZeroDuration();
  StartJob(2, std::move(options));
  const v1::Hello hello = HelloOf("a");
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(hello));
  const auto welcome = a.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  ExpectRefused(Turned(Next(hello, *welcome)),
                grpc::StatusCode::UNAUTHENTICATED, v1::REFUSAL_CODE_CREDENTIAL);
}

TEST_F(CredentialTest, ACredentialOfAnotherDaemonIsNone) {
  StartJob(2);
  const v1::Hello hello = HelloOf("a");
  const v1::Welcome welcome = AttendAndHangUp(hello);
  server_.reset();
  StartJob(2);
  ExpectRefused(Turned(Next(hello, welcome)), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
}

TEST_F(CredentialTest, ACredentialOutlivesItsDaemon) {
  StartJob(2, Journaled(false));
  const v1::Hello hello = HelloOf("a");
  const v1::Welcome welcome = AttendAndHangUp(hello);
  server_.reset();
  StartJob(2, Journaled(true));
  HandAgent again(Dial());
  ASSERT_TRUE(again.SayHello(Next(hello, welcome)));
  EXPECT_TRUE(again.IsWelcome());
}

TEST_F(CredentialTest, AnOtherRunsCredentialIsToldSo) {
  Start(Options());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  const v1::Welcome welcome = AttendToTheEnd(hello);
  // The agent may come back and receive the end until the job name is used
  // again.
  {
    HandAgent late(Dial());
    ASSERT_TRUE(late.SayHello(Next(hello, welcome)));
    ASSERT_TRUE(late.IsWelcome());
    EXPECT_TRUE(late.HearKind(v1::DaemonMessage::kEnd).has_value());
  }
  // Whatever the agent claims to be, it begins no run of its own.
  v1::Hello claim = Next(hello, welcome);
  claim.set_launcher(true);
  ExpectRefused(Turned(claim), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
  v1::Hello launcher = HelloWith("b", admin_);
  launcher.set_launcher(true);
  launcher.mutable_settings()->set_nodes_max(2);
  HandAgent anew(Dial());
  ASSERT_TRUE(anew.SayHello(launcher));
  ASSERT_TRUE(anew.IsWelcome());
  ExpectRefused(Turned(Next(hello, welcome)), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_OTHER_RUN);
  EXPECT_EQ(Refused(), (Counts{{"credential", 1}, {"other_run", 1}}));
}

TEST_F(CredentialTest, AReplacedLifesCredentialIsToldSo) {
  ServerOptions options = Options();
  options.limits.reconnect_grace = absl::ZeroDuration();
  StartJob(3, std::move(options));
  const v1::Hello hello = HelloOf("a");
  const v1::Welcome welcome = AttendAndHangUp(hello);
  // The daemon sees a stream's end a moment after the caller, and the node is
  // lost a moment later. Until then an agent dials again.
  std::optional<HandAgent> next;
  for (int i = 0; i < 100; ++i) {
    next.emplace(Dial());
    ASSERT_TRUE(next->SayHello(HelloOf("a")));
    if (next->IsWelcome()) break;
    const grpc::StatusCode end = next->End().error_code();
    ASSERT_TRUE(end == grpc::StatusCode::ALREADY_EXISTS ||
                end == grpc::StatusCode::UNAVAILABLE)
        << end;
  }
  ExpectRefused(Turned(Next(hello, welcome)), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_REPLACED);
  // The claim to be a later incarnation is refused, too.
  v1::Hello claim = Next(hello, welcome);
  claim.set_previous_incarnation(claim.incarnation());
  claim.set_incarnation(4711);
  ExpectRefused(Turned(claim), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_REPLACED);
  EXPECT_EQ(Refused(), (Counts{{"replaced", 2}}));
  ExpectUndisturbed(*next);
}

TEST_F(CredentialTest, OneThatWasLostAttendsAnewWithItsCredential) {
  ServerOptions options = Options();
  options.limits.reconnect_grace = absl::ZeroDuration();
  StartJob(3, std::move(options));
  const v1::Hello hello = HelloOf("a");
  const v1::Welcome welcome = AttendAndHangUp(hello);
  while (StatusOf("train").nodes(0).state() != v1::NODE_STATE_LOST) {
  }
  const v1::Hello same = Next(hello, welcome);
  ExpectRefused(Turned(same), grpc::StatusCode::ABORTED, v1::REFUSAL_CODE_LOST);
  v1::Hello anew = same;
  anew.set_previous_incarnation(same.incarnation());
  anew.set_incarnation(++incarnation_);
  HandAgent first(Dial());
  ASSERT_TRUE(first.SayHello(anew));
  ASSERT_TRUE(first.IsWelcome());
  // The Welcome may be lost, so the agent may send the same Hello again.
  HandAgent second(Dial());
  ASSERT_TRUE(second.SayHello(anew));
  EXPECT_TRUE(second.IsWelcome());
  EXPECT_TRUE(Refused().empty());
}

// --- A run that the daemon does not remember ---------------------------------

class ClaimTest : public AccessTest {
 protected:
  // Starts a daemon without a journal, so it forgets everything when it ends.
  void StartFresh() {
    ServerOptions options = Options();
    options.secret = secret_;
    StartJob(2, std::move(options));
  }
  // Returns the Hellos with which nodes a and b come back to the world that
  // they run.
  std::vector<v1::Hello> RunAWorld() {
    std::vector<v1::Hello> hellos;
    HandAgent a(Dial()), b(Dial());
    for (auto& [agent, name] : std::vector<std::pair<HandAgent*, std::string>>{
             {&a, "a"}, {&b, "b"}}) {
      const v1::Hello hello = HelloOf(name);
      EXPECT_TRUE(agent->SayHello(hello));
      hellos.push_back(
          Next(hello, agent->HearWelcome().value_or(v1::Welcome())));
    }
    for (size_t i = 0; i < hellos.size(); ++i) {
      HandAgent& agent = i == 0 ? a : b;
      const auto proposal = agent.HearKind(v1::DaemonMessage::kProposal);
      EXPECT_TRUE(proposal.has_value());
      v1::ResumeState& resume_state = *hellos[i].mutable_resume_state();
      resume_state.set_running_generation(1);
      if (proposal.has_value()) {
        v1::Proposal plain = proposal->proposal();
        EXPECT_TRUE(ExpandWorld(plain).ok());
        resume_state.set_world(plain.world());
      }
      v1::AgentMessage prepared;
      prepared.mutable_prepared()->set_generation(1);
      prepared.mutable_prepared()->set_master_port(20000);
      EXPECT_TRUE(agent.Say(prepared));
    }
    for (size_t i = 0; i < hellos.size(); ++i) {
      const auto commit = (i == 0 ? a : b).HearKind(v1::DaemonMessage::kCommit);
      EXPECT_TRUE(commit.has_value());
      if (!commit.has_value()) continue;
      hellos[i].mutable_resume_state()->set_world_commit(
          commit->commit().world_commit());
      hellos[i].mutable_resume_state()->set_proof(commit->commit().proof());
      hellos[i].set_generation_seen(1);
    }
    return hellos;
  }
  std::optional<SharedSecret> secret_ =
      *SharedSecret::Parse(SharedSecret::MakeText());
};

TEST_F(ClaimTest, WithTheSecretItsMembersBringItBack) {
  StartFresh();
  const std::vector<v1::Hello> hellos = RunAWorld();
  EXPECT_EQ(hellos[0].resume_state().proof().size(), 32u);
  server_.reset();
  StartFresh();
  HandAgent a(Dial()), b(Dial());
  ASSERT_TRUE(a.SayHello(hellos[0]));
  ASSERT_TRUE(b.SayHello(hellos[1]));
  const auto first = a.Hear();
  ASSERT_TRUE(first.has_value()) << a.End().error_message();
  ASSERT_TRUE(first->has_welcome()) << first->ShortDebugString();
  ASSERT_TRUE(b.IsWelcome());
  EXPECT_EQ(StatusOf("train").run(), hellos[0].run());
  EXPECT_EQ(StatusOf("train").state(), v1::JOB_STATE_RUNNING);
  for (HandAgent* agent : {&a, &b}) {
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_generation(1);
    ASSERT_TRUE(agent->Say(exited));
  }
  const auto end = a.HearKind(v1::DaemonMessage::kEnd);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->end().finished());
}

TEST_F(ClaimTest, WhatIsNotProvenIsNotBelieved) {
  StartFresh();
  const std::vector<v1::Hello> hellos = RunAWorld();
  server_.reset();
  StartFresh();
  struct Row {
    const char* what;
    std::function<void(v1::Hello&)> change;
    grpc::StatusCode code;
    v1::RefusalCode refusal;
  };
  const auto again = grpc::StatusCode::UNAVAILABLE;
  const Row rows[] = {
      {"a token", [this](auto& h) { *h.mutable_token() = worker_; },
       grpc::StatusCode::ABORTED, v1::REFUSAL_CODE_OTHER_RUN},
      {"another's credential", [](auto& h) { h.set_node("b"); },
       grpc::StatusCode::UNAUTHENTICATED, v1::REFUSAL_CODE_CREDENTIAL},
      {"no proof", [](auto& h) { h.mutable_resume_state()->clear_proof(); },
       again, v1::REFUSAL_CODE_UNSPECIFIED},
      {"a changed proof",
       [](auto& h) { h.mutable_resume_state()->mutable_proof()->front() ^= 1; },
       again, v1::REFUSAL_CODE_UNSPECIFIED},
      {"a changed world commit",
       [](auto& h) {
         v1::WorldCommit world_commit;
         world_commit.ParseFromString(h.resume_state().world_commit());
         world_commit.set_master_port(1);
         h.mutable_resume_state()->set_world_commit(
             world_commit.SerializeAsString());
       },
       again, v1::REFUSAL_CODE_UNSPECIFIED},
      {"another life",
       [this](auto& h) {
         h.set_previous_incarnation(h.incarnation());
         h.set_incarnation(++incarnation_);
       },
       again, v1::REFUSAL_CODE_UNSPECIFIED},
  };
  // Both members send it, so the lack of a majority is not the reason.
  HandAgent a(Dial());
  for (const Row& row : rows) {
    for (v1::Hello hello : hellos) {
      if (hello.node() == "b" && row.refusal == v1::REFUSAL_CODE_CREDENTIAL) {
        continue;
      }
      SCOPED_TRACE(row.what);
      row.change(hello);
      ExpectRefused(Turned(hello), row.code, row.refusal);
    }
  }
  EXPECT_NE(StatusOf("train").run(), hellos[0].run());
  EXPECT_EQ(StatusOf("train").state(), v1::JOB_STATE_GATHERING);
}

TEST_F(ClaimTest, WithoutASecretNothingIsAdopted) {
  secret_.reset();
  ServerOptions options = Options();
  options.state_dir = folder_ + "/state";
  StartJob(2, options);
  const std::vector<v1::Hello> hellos = RunAWorld();
  EXPECT_EQ(hellos[0].resume_state().proof(), "");
  server_.reset();
  // The daemon's keys are there, but its journal is not.
  for (const char* file : {"journal.db", "journal.db-wal", "journal.db-shm"}) {
    std::filesystem::remove(folder_ + "/state/" + file);
  }
  StartJob(2, options);
  for (const v1::Hello& hello : hellos) {
    ExpectRefused(Turned(hello), grpc::StatusCode::ABORTED,
                  v1::REFUSAL_CODE_OTHER_RUN);
  }
}

// All members know each other's incarnations. So a token and an incarnation
// must not count as a member's credential.
TEST_F(ClaimTest, ATokenIsGivenNoMembersCredential) {
  secret_.reset();
  ServerOptions options = Options();
  options.state_dir = folder_ + "/state";
  StartJob(2, options);
  options.resume = true;
  const std::vector<v1::Hello> hellos = RunAWorld();
  v1::Hello by_token = HelloOf("a");
  by_token.set_incarnation(hellos[0].incarnation());
  *by_token.mutable_token() = worker_;
  // A restarted daemon waits for the member.
  server_.reset();
  StartJob(2, options);
  ExpectRefused(Turned(by_token), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
  // The run has ended.
  {
    HandAgent a(Dial()), b(Dial());
    ASSERT_TRUE(a.SayHello(hellos[0]));
    ASSERT_TRUE(b.SayHello(hellos[1]));
    for (HandAgent* agent : {&a, &b}) {
      v1::AgentMessage exited;
      exited.mutable_rank_exited()->set_generation(1);
      ASSERT_TRUE(agent->Say(exited));
    }
    for (HandAgent* agent : {&a, &b}) {
      ASSERT_TRUE(agent->HearKind(v1::DaemonMessage::kEnd).has_value());
      v1::AgentMessage seen;
      seen.mutable_end_seen();
      ASSERT_TRUE(agent->Say(seen));
    }
    // When the stream ends, the daemon has finished with the job.
    a.End();
    b.End();
  }
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(by_token));
  const auto welcome = late.HearWelcome();
  EXPECT_EQ(welcome.has_value() ? welcome->node_credential() : "", "");
}

TEST_F(CredentialTest, AStrangersCredentialMakesNoJob) {
  Start(Options());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  hello.set_node_credential("anything");
  ExpectRefused(Turned(hello), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
  // The job still does not exist. Making it takes settings and a token.
  ExpectRefused(Turned(HelloOf("a")), grpc::StatusCode::NOT_FOUND,
                v1::REFUSAL_CODE_NO_JOB);
}

}  // namespace
}  // namespace rollcall
