// Which clients a daemon lets in, what it records about the others, and what
// one token may cost.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

// --- Tokens ------------------------------------------------------------------

TEST_F(AccessTest, TokensThatDoNotOpenAreToldApartLoggedOnceAndCounted) {
  ServerOptions options = Options();
  options.log_level = Log::Level::kWarning;
  testing::internal::CaptureStderr();
  StartJob(2, std::move(options));
  v1::JoinToken wrong = worker_;
  wrong.mutable_secret()->front() ^= 1;
  const v1::JoinToken revoked = MustCreate(Wanted(v1::ROLE_WORKER));
  ASSERT_TRUE(Revoke(revoked.id()).ok());
  const v1::JoinToken once = MustCreate(Wanted(v1::ROLE_WORKER, 1));
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloWith("good", once)));
  ASSERT_TRUE(good.IsWelcome());
  AwaitExpiry(MustCreate(Wanted(v1::ROLE_WORKER, 0, 1)));
  const struct {
    v1::JoinToken token;
    grpc::StatusCode code;
    v1::RefusalCode refusal;
  } rows[] = {
      {wrong, grpc::StatusCode::UNAUTHENTICATED,
       v1::REFUSAL_CODE_UNAUTHENTICATED},
      {revoked, grpc::StatusCode::UNAUTHENTICATED,
       v1::REFUSAL_CODE_TOKEN_REVOKED},
      {once, grpc::StatusCode::UNAUTHENTICATED, v1::REFUSAL_CODE_TOKEN_USED_UP},
      {viewer_, grpc::StatusCode::PERMISSION_DENIED, v1::REFUSAL_CODE_ROLE},
  };
  for (const auto& row : rows) {
    ExpectRefused(Turned(HelloWith("bad", row.token)), row.code, row.refusal);
  }
  EXPECT_EQ(Refused(), (Counts{{"role", 1},
                               {"token_expired", 1},
                               {"token_revoked", 1},
                               {"token_used_up", 1},
                               {"unauthenticated", 1}}));
  ExpectUndisturbed(good);
  server_.reset();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Times(log, "event=denied"), 5u) << log;
  for (const char* code : {"role", "token_expired", "token_revoked",
                           "token_used_up", "unauthenticated"}) {
    EXPECT_EQ(Times(log, absl::StrCat("event=denied code=", code, " ")), 1u)
        << log;
  }
  EXPECT_EQ(Times(log, "node=bad"), 4u) << log;
  EXPECT_EQ(Times(log, "address=127.0.0.1"), 5u) << log;
  for (const v1::JoinToken& token :
       {wrong, revoked, once, viewer_, worker_, admin_}) {
    EXPECT_FALSE(absl::StrContains(
        log, absl::BytesToHexString(token.secret()).substr(0, 8)));
  }
}

TEST_F(AccessTest, WhatIsNoTokenIsUnauthenticated) {
  StartJob(2);
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  const std::function<void(v1::Hello&)> changes[] = {
      [](v1::Hello& h) { h.mutable_token()->set_id("zzzzzz"); },
      [](v1::Hello& h) { h.clear_token(); },
      [&](v1::Hello& h) { h.mutable_token()->set_id(viewer_.id()); },
  };
  for (const auto& change : changes) {
    v1::Hello hello = HelloOf("bad");
    change(hello);
    ExpectRefused(Turned(hello), grpc::StatusCode::UNAUTHENTICATED,
                  v1::REFUSAL_CODE_UNAUTHENTICATED);
  }
  // A token without a secret is not well-formed, so its refusal is not counted.
  v1::Hello no_secret = HelloOf("bad");
  no_secret.mutable_token()->clear_secret();
  ExpectRefused(Turned(no_secret), grpc::StatusCode::INVALID_ARGUMENT,
                v1::REFUSAL_CODE_INVALID);
  EXPECT_EQ(Refused(), (Counts{{"unauthenticated", 3}}));
  ExpectUndisturbed(good);
}

TEST_F(AccessTest, AnotherJobIsRefusedForGood) {
  StartJob(2);
  v1::Hello hello = HelloOf("a");
  hello.set_job("other");
  hello.mutable_settings()->set_nodes_max(1);
  ExpectRefused(Turned(hello), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_OTHER_JOB);
  EXPECT_EQ(Refused(), (Counts{{"other_job", 1}}));
}

TEST_F(AccessTest, ATokenOfAJobOpensThatJobAlone) {
  Start(Options());
  HandAgent train(Dial()), eval(Dial());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  ASSERT_TRUE(train.SayHello(hello));
  ASSERT_TRUE(train.IsWelcome());
  hello.set_job("eval");
  ASSERT_TRUE(eval.SayHello(hello));
  ASSERT_TRUE(eval.IsWelcome());
  v1::CreateTokenRequest request = Wanted(v1::ROLE_ADMIN);
  request.set_job("eval");
  const v1::JoinToken token = MustCreate(request);
  EXPECT_EQ(Listed(token.id()).job(), "eval");
  EXPECT_TRUE(Look(token, "eval").ok());
  EXPECT_TRUE(Look(token, "").ok()) << "it names its job itself";
  ExpectRefused(Look(token, "train"), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_OTHER_JOB);
  ExpectRefused(Turned(HelloWith("b", token)),
                grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_OTHER_JOB);
  // The token cannot make tokens for another job either.
  for (const char* job : {"", "train"}) {
    grpc::ClientContext context;
    Authorize(context, token);
    v1::CreateTokenRequest more = Wanted(v1::ROLE_ADMIN);
    more.set_job(job);
    v1::CreateTokenResponse response;
    const grpc::Status made =
        AdminStub()->CreateToken(&context, more, &response);
    EXPECT_EQ(made.ok(), *job == '\0') << made.error_message();
    if (made.ok()) {
      EXPECT_EQ(response.job(), "eval");
    }
  }
}

TEST_F(AccessTest, AUseIsCountedOnceAnAgent) {
  StartJob(3);
  const v1::JoinToken token = MustCreate(Wanted(v1::ROLE_WORKER, 2));
  const v1::Hello hello = HelloWith("a", token);
  // The agent has no credential yet, because its Welcome was lost.
  for (int i = 0; i < 3; ++i) {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    ASSERT_TRUE(a.IsWelcome());
    EXPECT_EQ(Listed(token.id()).uses_left(), 1u);
  }
  // An agent that the job refuses does not count as a use.
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(hello));
  ASSERT_TRUE(a.IsWelcome());
  ExpectRefused(Turned(HelloWith("a", token)), grpc::StatusCode::ALREADY_EXISTS,
                v1::REFUSAL_CODE_NAME_TAKEN);
  v1::Hello contrary = HelloWith("b", token);
  contrary.mutable_settings()->set_nodes_max(7);
  ExpectRefused(Turned(contrary), grpc::StatusCode::FAILED_PRECONDITION,
                v1::REFUSAL_CODE_SETTINGS);
  EXPECT_EQ(Listed(token.id()).uses_left(), 1u);
  HandAgent b(Dial());
  ASSERT_TRUE(b.SayHello(HelloWith("b", token)));
  ASSERT_TRUE(b.IsWelcome());
  EXPECT_EQ(Listed(token.id()).uses_left(), 0u);
  ExpectRefused(Turned(HelloWith("c", token)),
                grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_TOKEN_USED_UP);
  // The first agent is still let in.
  HandAgent again(Dial());
  ASSERT_TRUE(again.SayHello(hello));
  EXPECT_TRUE(again.IsWelcome());
}

TEST_F(AccessTest, WhoIsInStaysWhenItsTokenIsRevoked) {
  StartJob(2);
  const v1::JoinToken token = MustCreate(Wanted(v1::ROLE_WORKER));
  const v1::Hello hello = HelloWith("a", token);
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(hello));
  const auto welcome = a.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  ASSERT_TRUE(Revoke(token.id()).ok());
  ExpectUndisturbed(a);
  HandAgent again(Dial());
  ASSERT_TRUE(again.SayHello(Next(hello, *welcome)));
  EXPECT_TRUE(again.IsWelcome());
  EXPECT_EQ(Revoke("nobody").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Revoke(admin_.id()).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(AccessTest, TokensSurviveTheirDaemonAndNotTheRun) {
  StartJob(3, Journaled(false));
  const v1::JoinToken good = MustCreate(Wanted(v1::ROLE_WORKER));
  const v1::JoinToken revoked = MustCreate(Wanted(v1::ROLE_WORKER));
  const v1::JoinToken twice = MustCreate(Wanted(v1::ROLE_WORKER, 2));
  const v1::JoinToken brief = MustCreate(Wanted(v1::ROLE_VIEWER, 0, 1));
  ASSERT_TRUE(Revoke(revoked.id()).ok());
  // The daemon is also started with this token.
  ASSERT_TRUE(Revoke(viewer_.id()).ok());
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(HelloWith("a", twice)));
    ASSERT_TRUE(a.IsWelcome());
    EXPECT_EQ(Listed(twice.id()).uses_left(), 1u);
  }
  const std::string pin = server_->pin();
  server_.reset();
  StartJob(3, Journaled(true));
  EXPECT_EQ(server_->pin(), pin);
  EXPECT_TRUE(Look(good).ok());
  ExpectRefused(Look(revoked), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_TOKEN_REVOKED);
  ExpectRefused(Look(viewer_), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_TOKEN_REVOKED);
  EXPECT_EQ(Listed(twice.id()).uses_left(), 1u);
  AwaitExpiry(brief);
  server_.reset();
  // This is another run, so tokens made for the previous one are not valid.
  StartJob(3, Journaled(false));
  EXPECT_TRUE(Look(viewer_).ok());
  ExpectRefused(Look(good), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_UNAUTHENTICATED);
  server_.reset();
  StartJob(3, Journaled(true));
  ExpectRefused(Look(good), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_UNAUTHENTICATED);
}

TEST_F(AccessTest, OnlyAnAdminLeads) {
  Start(Options());
  v1::Hello hello = HelloOf("a");
  hello.set_launcher(true);
  hello.mutable_settings()->set_nodes_max(2);
  for (const v1::JoinToken& token : {worker_, viewer_}) {
    *hello.mutable_token() = token;
    ExpectRefused(Turned(hello), grpc::StatusCode::PERMISSION_DENIED,
                  v1::REFUSAL_CODE_ROLE);
  }
  *hello.mutable_token() = admin_;
  HandAgent launcher(Dial());
  ASSERT_TRUE(launcher.SayHello(hello));
  const auto welcome = launcher.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  // The launcher comes back with the credential that it was given.
  HandAgent again(Dial());
  ASSERT_TRUE(again.SayHello(Next(hello, *welcome)));
  EXPECT_TRUE(again.IsWelcome());
  // A launcher also counts as a use of its token.
  const v1::JoinToken once = MustCreate(Wanted(v1::ROLE_ADMIN, 1));
  for (const char* node : {"b", "c"}) {
    v1::Hello other = HelloWith(node, once);
    other.set_launcher(true);
    if (*node == 'c') {
      ExpectRefused(Turned(other), grpc::StatusCode::UNAUTHENTICATED,
                    v1::REFUSAL_CODE_TOKEN_USED_UP);
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      HandAgent agent(Dial());
      ASSERT_TRUE(agent.SayHello(other));
      EXPECT_TRUE(agent.IsWelcome());
    }
  }
  EXPECT_EQ(Refused(), (Counts{{"role", 2}, {"token_used_up", 1}}));
}

TEST_F(AccessTest, ALauncherTakesItsNodesNameFromAWorker) {
  StartJob(2);
  HandAgent worker(Dial());
  ASSERT_TRUE(worker.SayHello(HelloWith("a", worker_)));
  ASSERT_TRUE(worker.IsWelcome());
  v1::Hello hello = HelloWith("a", admin_);
  // An admin's token alone does not make a launcher.
  ExpectRefused(Turned(hello), grpc::StatusCode::ALREADY_EXISTS,
                v1::REFUSAL_CODE_NAME_TAKEN);
  hello.set_launcher(true);
  HandAgent launcher(Dial());
  ASSERT_TRUE(launcher.SayHello(hello));
  ASSERT_TRUE(launcher.IsWelcome());
  ExpectRefused(worker.End(), grpc::StatusCode::ALREADY_EXISTS,
                v1::REFUSAL_CODE_NAME_TAKEN);
  ExpectRefused(Turned(HelloWith("a", worker_)),
                grpc::StatusCode::ALREADY_EXISTS, v1::REFUSAL_CODE_NAME_TAKEN);
  ExpectUndisturbed(launcher);
}

TEST_F(AccessTest, ALaunchersAgentThatIsLateHearsOfTheEnd) {
  Start(Options());
  v1::Hello hello = HelloWith("a", admin_);
  hello.set_launcher(true);
  hello.mutable_settings()->set_nodes_max(2);
  const v1::Welcome welcome = AttendToTheEnd(hello);
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(Next(hello, welcome)));
  EXPECT_EQ(late.HearWelcome().value_or(v1::Welcome()).run(), welcome.run());
  EXPECT_TRUE(late.HearKind(v1::DaemonMessage::kEnd).has_value());
  EXPECT_EQ(StatusOf("train").exit_code(), 4);
}

// --- What one token may cost -------------------------------------------------

class JobsOfATokenTest : public AccessTest {
 protected:
  v1::Hello Begins(const std::string& job, const v1::JoinToken& token) {
    v1::Hello hello = HelloWith("a", token);
    hello.set_job(job);
    hello.mutable_settings()->set_nodes_max(2);
    return hello;
  }
  void ExpectFull(const v1::JoinToken& token) {
    const grpc::Status turned = Turned(Begins("another", token));
    // The code lets an agent dial again, because the job may be made later.
    ExpectRefused(turned, grpc::StatusCode::RESOURCE_EXHAUSTED,
                  v1::REFUSAL_CODE_NO_JOB);
    EXPECT_NE(turned.error_message().find(token.id()), std::string::npos);
  }
  // Redials until the agent is welcomed, as a real agent does.
  void AwaitWelcome(const v1::Hello& hello) {
    for (;;) {
      HandAgent agent(Dial());
      ASSERT_TRUE(agent.SayHello(hello));
      if (agent.IsWelcome()) return;
      ExpectRefused(agent.End(), grpc::StatusCode::RESOURCE_EXHAUSTED,
                    v1::REFUSAL_CODE_NO_JOB);
    }
  }
};

TEST_F(JobsOfATokenTest, ThoseThatHaveNotRunAreFew) {
  ServerOptions options = Journaled(true);
  options.limits.lease = absl::Hours(1);
  Start(options);
  std::vector<std::unique_ptr<HandAgent>> agents;
  for (size_t i = 0; i < Limits::gathering_jobs_per_token_max; ++i) {
    agents.push_back(std::make_unique<HandAgent>(Dial()));
    ASSERT_TRUE(
        agents.back()->SayHello(Begins(absl::StrCat("job", i), worker_)));
    ASSERT_TRUE(agents.back()->IsWelcome());
  }
  ExpectFull(worker_);
  // Other tokens have a bound of their own, and an admin has none.
  const v1::JoinToken other = MustCreate(Wanted(v1::ROLE_WORKER));
  for (const auto& [job, token] :
       {std::pair{"b", other}, std::pair{"c", admin_}}) {
    HandAgent agent(Dial());
    ASSERT_TRUE(agent.SayHello(Begins(job, token)));
    EXPECT_TRUE(agent.IsWelcome());
  }
  // The bound holds after a restart.
  agents.clear();
  server_.reset();
  Start(options);
  ExpectFull(worker_);
  // A job that runs makes room for another.
  HandAgent a(Dial()), b(Dial());
  v1::Hello second = Begins("job0", worker_);
  second.set_node("b");
  ASSERT_TRUE(a.SayHello(Begins("job0", worker_)));
  ASSERT_TRUE(b.SayHello(second));
  for (HandAgent* agent : {&a, &b}) {
    const auto proposal = agent->HearKind(v1::DaemonMessage::kProposal);
    ASSERT_TRUE(proposal.has_value());
    v1::AgentMessage prepared;
    prepared.mutable_prepared()->set_generation(
        proposal->proposal().generation());
    prepared.mutable_prepared()->set_master_port(20000);
    ASSERT_TRUE(agent->Say(prepared));
  }
  ASSERT_TRUE(a.HearKind(v1::DaemonMessage::kCommit).has_value());
  AwaitWelcome(Begins("another", worker_));
}

TEST_F(JobsOfATokenTest, OneThatNobodyAttendsMakesRoom) {
  ServerOptions options = Options();
  options.limits.reattach_grace = absl::Milliseconds(10);
  options.limits.reconnect_grace = absl::ZeroDuration();
  Start(std::move(options));
  {
    std::vector<std::unique_ptr<HandAgent>> agents;
    for (size_t i = 0; i < Limits::gathering_jobs_per_token_max; ++i) {
      agents.push_back(std::make_unique<HandAgent>(Dial()));
      ASSERT_TRUE(
          agents.back()->SayHello(Begins(absl::StrCat("job", i), worker_)));
      ASSERT_TRUE(agents.back()->IsWelcome());
    }
    ExpectFull(worker_);
  }
  AwaitWelcome(Begins("another", worker_));
}

}  // namespace
}  // namespace rollcall
