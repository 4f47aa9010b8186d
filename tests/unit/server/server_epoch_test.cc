// Which of a node's credentials become invalid by an eviction, a restart, a
// drain or a revocation.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

// --- Epochs ------------------------------------------------------------------

class EpochTest : public AccessTest {
 protected:
  // Expects that a node that was evicted or has left is refused: in the same
  // incarnation, in the next one, and again by a restarted daemon.
  void ExpectDead(const v1::Hello& next) {
    for (int life = 0; life < 2; ++life) {
      ExpectRefused(Turned(next), grpc::StatusCode::PERMISSION_DENIED,
                    v1::REFUSAL_CODE_EVICTED);
      v1::Hello anew = next;
      anew.set_previous_incarnation(next.incarnation());
      anew.set_incarnation(++incarnation_);
      const grpc::Status refused = Turned(anew);
      ExpectRefused(refused, grpc::StatusCode::PERMISSION_DENIED,
                    v1::REFUSAL_CODE_EVICTED);
      EXPECT_NE(refused.error_message().find("with a valid token"),
                std::string::npos);
      server_.reset();
      StartJob(3, Journaled(true));
    }
  }
  v1::Hello Welcomed(HandAgent& agent, const v1::Hello& hello) {
    EXPECT_TRUE(agent.SayHello(hello));
    return Next(hello, agent.HearWelcome().value_or(v1::Welcome()));
  }
};

TEST_F(EpochTest, AnEvictedNodeNeedsAToken) {
  StartJob(3, Journaled(false));
  HandAgent a(Dial()), b(Dial());
  const v1::Hello next = Welcomed(a, HelloOf("a"));
  const v1::Hello other = Welcomed(b, HelloOf("b"));
  ASSERT_TRUE(Evict("a").ok());
  ExpectRefused(a.End(), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
  ExpectDead(next);
  HandAgent back(Dial());
  const v1::Hello again = Welcomed(back, HelloOf("a"));
  // The credential has the epoch after the MAC. The eviction and this agent
  // raised it.
  EXPECT_EQ(again.node_credential().substr(32, 8), std::string(7, '\0') + '\2');
  HandAgent redialed(Dial());
  ASSERT_TRUE(redialed.SayHello(again));
  EXPECT_TRUE(redialed.IsWelcome());
  // The credentials of other nodes stay valid.
  HandAgent b_again(Dial());
  ASSERT_TRUE(b_again.SayHello(other));
  EXPECT_TRUE(b_again.IsWelcome());
  // A second eviction has the same effect.
  ASSERT_TRUE(Evict("a").ok());
  ASSERT_TRUE(Evict("a").ok());
  ExpectRefused(Turned(again), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
  EXPECT_EQ(Evict("nobody").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Evict("no name!").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// The agent was stopped for a long time, and does not know that another agent
// of its node was started. A restarted daemon has forgotten both.
TEST_F(EpochTest, AReplacedAgentThatComesFirstAfterARestartIsOut) {
  ServerOptions options = Journaled(false);
  options.limits.reconnect_grace = absl::ZeroDuration();
  StartJob(3, std::move(options));
  v1::Hello ghost;
  {
    HandAgent a(Dial());
    ghost = Welcomed(a, HelloOf("a"));
    a.HangUp();
    EXPECT_TRUE(a.End().ok());
  }
  while (StatusOf("train").nodes(0).state() != v1::NODE_STATE_LOST) {
  }
  std::optional<HandAgent> real(std::in_place, Dial());
  const v1::Hello back = Welcomed(*real, HelloOf("a"));
  real.reset();
  server_.reset();
  StartJob(3, Journaled(true));
  ExpectRefused(Turned(ghost), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
  ghost.set_previous_incarnation(ghost.incarnation());
  ghost.set_incarnation(++incarnation_);
  ExpectRefused(Turned(ghost), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
  real.emplace(Dial());
  ASSERT_TRUE(real->SayHello(back));
  EXPECT_TRUE(real->IsWelcome());
}

TEST_F(EpochTest, ANodeThatWasDrainedNeedsAToken) {
  StartJob(3, Journaled(false));
  std::optional<HandAgent> a(std::in_place, Dial());
  const v1::Hello next = Welcomed(*a, HelloOf("a"));
  ASSERT_TRUE(Revoke(worker_.id()).ok());
  ASSERT_TRUE(Drain("a").ok());
  ASSERT_TRUE(a->HearKind(v1::DaemonMessage::kEnd).has_value());
  a->HangUp();
  a->End();
  a.reset();
  // The daemon sees the end of a stream a moment after the caller.
  while (StatusOf("train").nodes(0).lease_ms() != 0) {
  }
  ExpectDead(next);
}

TEST_F(EpochTest, ARevokedTokenTakesItsNodesWithIt) {
  StartJob(4, Journaled(false));
  const v1::JoinToken given = MustCreate(Wanted(v1::ROLE_WORKER));
  HandAgent a(Dial()), b(Dial()), c(Dial());
  const v1::Hello next_a = Welcomed(a, HelloWith("a", given));
  const v1::Hello next_b = Welcomed(b, HelloWith("b", given));
  const v1::Hello next_c = Welcomed(c, HelloOf("c"));
  // The agent has come back with its credential since, and still belongs to its
  // token.
  HandAgent b_again(Dial());
  ASSERT_TRUE(b_again.SayHello(next_b));
  ASSERT_TRUE(b_again.IsWelcome());
  // Without --cascade no node is evicted.
  ASSERT_TRUE(Revoke(given.id()).ok());
  HandAgent c_again(Dial());
  ASSERT_TRUE(c_again.SayHello(next_c));
  ASSERT_TRUE(c_again.IsWelcome());
  EXPECT_EQ(Cascade(given.id()), (std::vector<std::string>{"a", "b"}));
  ExpectRefused(a.End(), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
  ExpectRefused(b_again.End(), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
  ExpectDead(next_a);
  ExpectDead(next_b);
  // A restarted daemon knows which token admitted which node.
  EXPECT_EQ(Cascade(worker_.id()), std::vector<std::string>{"c"});
  ExpectRefused(Turned(next_c), grpc::StatusCode::PERMISSION_DENIED,
                v1::REFUSAL_CODE_EVICTED);
}

}  // namespace
}  // namespace rollcall
