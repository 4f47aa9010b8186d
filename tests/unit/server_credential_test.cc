// What an agent shows instead of its token once it is in.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "tests/unit/access_fixture.h"

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
  EXPECT_EQ(same->node_credential(), welcome->node_credential());
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
      // Of another node, which attends, and of one that never did.
      [](v1::Hello& h) { h.set_node("b"); },
      [](v1::Hello& h) { h.set_node("c"); },
      // Of another life, and of another run.
      [](v1::Hello& h) { h.set_incarnation(h.incarnation() + 1); },
      [](v1::Hello& h) { h.set_run("another"); },
      [](v1::Hello& h) { h.clear_run(); },
      // Of the launcher.
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
  // The sixth of one address is only counted.
  EXPECT_EQ(Times(log, "event=denied code=credential"), 5u) << log;
}

TEST_F(CredentialTest, ACredentialOfAnotherDaemonIsNone) {
  StartJob(2);
  const v1::Hello hello = HelloOf("a");
  v1::Welcome welcome;
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    welcome = a.HearWelcome().value_or(v1::Welcome());
  }
  server_.reset();
  StartJob(2);
  ExpectRefused(Turned(Next(hello, welcome)), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
}

TEST_F(CredentialTest, ACredentialOutlivesItsDaemon) {
  StartJob(2, Journaled(false));
  const v1::Hello hello = HelloOf("a");
  v1::Welcome welcome;
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    welcome = a.HearWelcome().value_or(v1::Welcome());
  }
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
  HandAgent a(Dial());
  ASSERT_TRUE(a.SayHello(hello));
  const auto welcome = a.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  v1::StopResponse response;
  ASSERT_TRUE(Stop("train", 4, &response).ok());
  ASSERT_TRUE(a.HearKind(v1::DaemonMessage::kEnd).has_value());
  v1::AgentMessage seen;
  seen.mutable_end_seen();
  ASSERT_TRUE(a.Say(seen));
  a.HangUp();
  EXPECT_TRUE(a.End().ok());
  // It may come back and hear of the end, until the name is used again.
  {
    HandAgent late(Dial());
    ASSERT_TRUE(late.SayHello(Next(hello, *welcome)));
    ASSERT_TRUE(late.IsWelcome());
    EXPECT_TRUE(late.HearKind(v1::DaemonMessage::kEnd).has_value());
  }
  // It begins no run of its own, by whatever it says of itself.
  v1::Hello claim = Next(hello, *welcome);
  claim.set_launcher(true);
  ExpectRefused(Turned(claim), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
  v1::Hello launcher = HelloWith("b", admin_);
  launcher.set_launcher(true);
  launcher.mutable_settings()->set_nodes_max(2);
  HandAgent anew(Dial());
  ASSERT_TRUE(anew.SayHello(launcher));
  ASSERT_TRUE(anew.IsWelcome());
  ExpectRefused(Turned(Next(hello, *welcome)), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_OTHER_RUN);
  EXPECT_EQ(Refused(), (Counts{{"credential", 1}, {"other_run", 1}}));
}

TEST_F(CredentialTest, AReplacedLifesCredentialIsToldSo) {
  ServerOptions options = Options();
  options.limits.reconnect_grace = absl::Hours(1);
  StartJob(3, std::move(options));
  const v1::Hello hello = HelloOf("a");
  v1::Welcome welcome;
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    welcome = a.HearWelcome().value_or(v1::Welcome());
    a.HangUp();
    EXPECT_TRUE(a.End().ok());
  }
  // A stream's end is the daemon's a moment after it is its caller's: until then
  // the name is taken, and an agent dials again.
  std::optional<HandAgent> next;
  for (int i = 0; i < 100; ++i) {
    next.emplace(Dial());
    ASSERT_TRUE(next->SayHello(HelloOf("a")));
    if (next->IsWelcome()) break;
    const grpc::Status end = next->End();
    ASSERT_EQ(end.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  }
  ExpectRefused(Turned(Next(hello, welcome)), grpc::StatusCode::ABORTED,
                v1::REFUSAL_CODE_REPLACED);
  // Nor by the claim to be a life that follows it.
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
  v1::Welcome welcome;
  {
    HandAgent a(Dial());
    ASSERT_TRUE(a.SayHello(hello));
    welcome = a.HearWelcome().value_or(v1::Welcome());
    a.HangUp();
    EXPECT_TRUE(a.End().ok());
  }
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
  // The Welcome may be lost on the way: it says the same once more.
  HandAgent second(Dial());
  ASSERT_TRUE(second.SayHello(anew));
  EXPECT_TRUE(second.IsWelcome());
  EXPECT_TRUE(Refused().empty());
}

TEST_F(CredentialTest, AStrangersCredentialMakesNoJob) {
  Start(Options());
  v1::Hello hello = HelloOf("a");
  hello.mutable_settings()->set_nodes_max(2);
  hello.set_node_credential("anything");
  ExpectRefused(Turned(hello), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
  // Still nobody's: it takes settings and a token to make it.
  ExpectRefused(Turned(HelloOf("a")), grpc::StatusCode::NOT_FOUND,
                v1::REFUSAL_CODE_NO_JOB);
}

}  // namespace
}  // namespace rollcall
