// Introductions: a client may send a long Hello only after it has shown a valid
// token or credential. That one without it is disconnected is tested in
// unauthenticated_connections_test: here it may pass before its bytes are
// counted.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/codec/introduction.h"
#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

class Introductions : public AccessTest {
 protected:
  // Of more than 16 KiB.
  v1::Hello LongHello(const std::string& node) {
    v1::Hello hello = HelloOf(node);
    for (int i = 0; i < 40; ++i) {
      v1::MissingFact& missing = *hello.mutable_facts()->add_missing();
      missing.set_fact(absl::StrCat("fact", i));
      missing.set_reason(std::string(400, 'x'));
    }
    return hello;
  }
};

TEST_F(Introductions, ALongHelloMayFollow) {
  StartJob(2);
  const v1::Hello hello = LongHello("long");
  HandAgent agent(Dial());
  ASSERT_TRUE(agent.Say(IntroductionOf(hello)));
  ASSERT_TRUE(agent.SayHello(hello));
  EXPECT_TRUE(agent.IsWelcome());
}

TEST_F(Introductions, AWrongTokenIsRefused) {
  StartJob(2);
  v1::Hello hello = LongHello("long");
  hello.mutable_token()->set_secret(std::string(32, 'x'));
  HandAgent agent(Dial());
  ASSERT_TRUE(agent.Say(IntroductionOf(hello)));
  ExpectRefused(agent.End(), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_UNAUTHENTICATED);
}

TEST_F(Introductions, ACredentialIsEnough) {
  StartJob(2);
  v1::Hello hello = LongHello("long");
  {
    HandAgent agent(Dial());
    ASSERT_TRUE(agent.Say(IntroductionOf(hello)));
    ASSERT_TRUE(agent.SayHello(hello));
    const auto welcome = agent.HearWelcome();
    ASSERT_TRUE(welcome.has_value());
    hello.set_run(welcome->run());
    hello.set_node_credential(welcome->node_credential());
  }
  HandAgent agent(Dial());
  ASSERT_TRUE(agent.Say(IntroductionOf(hello)));
  ASSERT_TRUE(agent.SayHello(hello));
  EXPECT_TRUE(agent.IsWelcome());
  hello.set_node("other");
  HandAgent forger(Dial());
  ASSERT_TRUE(forger.Say(IntroductionOf(hello)));
  ExpectRefused(forger.End(), grpc::StatusCode::UNAUTHENTICATED,
                v1::REFUSAL_CODE_CREDENTIAL);
}

TEST_F(Introductions, TheCredentialOfAnEvictedNodeIsRefused) {
  StartJob(2);
  HandAgent agent(Dial());
  v1::Hello hello = HelloOf("evicted");
  ASSERT_TRUE(agent.SayHello(hello));
  const auto welcome = agent.HearWelcome();
  ASSERT_TRUE(welcome.has_value());
  hello.set_run(welcome->run());
  hello.set_node_credential(welcome->node_credential());
  ASSERT_TRUE(Evict("evicted").ok());
  HandAgent back(Dial());
  ASSERT_TRUE(back.Say(IntroductionOf(hello)));
  ExpectRefused(back.End(), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
}

TEST_F(Introductions, OfALauncherNeedsAnAdminsToken) {
  StartJob(2);
  v1::Hello hello = HelloOf("launcher");
  hello.set_launcher(true);
  HandAgent worker(Dial());
  ASSERT_TRUE(worker.Say(IntroductionOf(hello)));
  ExpectRefused(worker.End(), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_ROLE);
}

TEST_F(Introductions, AreShort) {
  StartJob(2);
  v1::AgentMessage message;
  *message.mutable_introduction() = LongHello("long");
  message.mutable_introduction()
      ->mutable_facts()
      ->mutable_missing()
      ->DeleteSubrange(8, 32);
  ASSERT_GT(message.ByteSizeLong(), Limits::hello_without_introduction_bytes);
  HandAgent agent(Dial());
  agent.Say(message);
  ExpectRefused(agent.End(), grpc::StatusCode::INVALID_ARGUMENT,
                v1::REFUSAL_CODE_INVALID);
}

TEST_F(Introductions, ComeOnceAndFirst) {
  StartJob(3);
  HandAgent twice(Dial());
  ASSERT_TRUE(twice.Say(IntroductionOf(HelloOf("twice"))));
  twice.Say(IntroductionOf(HelloOf("twice")));
  ExpectRefused(twice.End(), grpc::StatusCode::INVALID_ARGUMENT,
                v1::REFUSAL_CODE_INVALID);
  HandAgent late(Dial());
  ASSERT_TRUE(late.SayHello(HelloOf("late")));
  ASSERT_TRUE(late.IsWelcome());
  late.Say(IntroductionOf(HelloOf("late")));
  ExpectRefused(late.End(), grpc::StatusCode::INVALID_ARGUMENT,
                v1::REFUSAL_CODE_INVALID);
  v1::Hello unfit = HelloOf("unfit");
  unfit.set_node("no name");
  HandAgent bad(Dial());
  bad.Say(IntroductionOf(unfit));
  ExpectRefused(bad.End(), grpc::StatusCode::INVALID_ARGUMENT,
                v1::REFUSAL_CODE_INVALID);
}

TEST_F(Introductions, DoNotMakeAMember) {
  StartJob(2);
  HandAgent agent(Dial());
  ASSERT_TRUE(agent.Say(IntroductionOf(HelloOf("quiet"))));
  HandAgent good(Dial());
  ASSERT_TRUE(good.SayHello(HelloOf("good")));
  ASSERT_TRUE(good.IsWelcome());
  EXPECT_EQ(StatusOf("train").nodes_size(), 1);
}

}  // namespace
}  // namespace rollcall
