// What an agent must show before the daemon believes that the ranks of an
// earlier agent of its node are gone.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/core/limits.h"
#include "daemon/security/secrets/incarnation_nonce.h"
#include "tests/unit/server/access_fixture.h"

namespace rollcall {
namespace {

class FenceTest : public AccessTest {
 protected:
  // Node a runs the world and dies. Node b waits for the end of a's ranks.
  void BeginWorld(HandAgent& b, const std::string& nonce) {
    HandAgent a(Dial());
    v1::Hello hello = HelloOf("a");
    member_ = IncarnationOf("train", "a", nonce);
    hello.set_incarnation(member_);
    ASSERT_TRUE(a.SayHello(hello));
    ASSERT_TRUE(a.HearKind(v1::DaemonMessage::kProposal).has_value());
    v1::AgentMessage prepared;
    prepared.mutable_prepared()->set_generation(1);
    prepared.mutable_prepared()->set_master_port(20000);
    ASSERT_TRUE(a.Say(prepared));
    ASSERT_TRUE(a.HearKind(v1::DaemonMessage::kCommit).has_value());
    ASSERT_TRUE(b.SayHello(HelloOf("b")));
    ASSERT_TRUE(b.IsWelcome());
  }
  // Returns whether a world still has to wait after a new agent of node a,
  // which has only the worker token, has sent this Hello.
  bool WaitsAfter(const v1::Hello& hello) {
    AwaitLossOfA();
    HandAgent a(Dial());
    EXPECT_TRUE(a.SayHello(hello));
    EXPECT_TRUE(a.IsWelcome());
    return StatusOf("train").has_fence();
  }
  void AwaitFence() {
    while (!StatusOf("train").has_fence()) {
    }
  }
  void AwaitLossOfA() {
    for (;;) {
      const v1::JobStatus status = StatusOf("train");
      for (const v1::NodeStatus& node : status.nodes()) {
        if (node.node() == "a" && node.state() == v1::NODE_STATE_LOST) return;
      }
    }
  }
  v1::Hello Sweeps(const std::string& nonce) {
    v1::Hello hello = HelloOf("a");
    hello.add_swept_nonces(nonce);
    return hello;
  }

  uint64_t member_ = 0;
};

// The bytes of the number, the lowest first.
std::string Bytes(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(number >> 8 * i);
  return bytes;
}

TEST_F(FenceTest, OpensForAMembersNonceAndNotForItsIncarnation) {
  ServerOptions options = Options();
  options.limits.reconnect_grace = absl::ZeroDuration();
  options.limits.lease = absl::Minutes(5);
  StartJob(1, std::move(options));
  const std::string nonce = DrawIncarnationNonce();
  HandAgent b(Dial());
  BeginWorld(b, nonce);
  AwaitFence();
  // These bytes are made from the incarnation number, which status shows.
  const std::string low_first = Bytes(member_);
  const std::string high_first(low_first.rbegin(), low_first.rend());
  for (const std::string& number : {low_first, high_first}) {
    EXPECT_TRUE(WaitsAfter(Sweeps(number + std::string(8, '\0'))));
    EXPECT_TRUE(WaitsAfter(Sweeps(std::string(8, '\0') + number)));
  }
  // In an older version, field 17 had the incarnations.
  v1::Hello old = HelloOf("a");
  old.GetReflection()->MutableUnknownFields(&old)->AddLengthDelimited(
      17, low_first);
  EXPECT_TRUE(WaitsAfter(old));
  EXPECT_TRUE(WaitsAfter(Sweeps(DrawIncarnationNonce())));
  EXPECT_FALSE(WaitsAfter(Sweeps(nonce)));
}

TEST_F(FenceTest, AnotherNodesNonceIsNone) {
  ServerOptions options = Options();
  options.limits.reconnect_grace = absl::ZeroDuration();
  options.limits.lease = absl::Minutes(5);
  StartJob(1, std::move(options));
  const std::string nonce = DrawIncarnationNonce();
  HandAgent b(Dial());
  BeginWorld(b, nonce);
  AwaitFence();
  v1::Hello other = HelloOf("c");
  other.add_swept_nonces(nonce);
  HandAgent c(Dial());
  ASSERT_TRUE(c.SayHello(other));
  ASSERT_TRUE(c.IsWelcome());
  EXPECT_TRUE(StatusOf("train").has_fence());
}

}  // namespace
}  // namespace rollcall
