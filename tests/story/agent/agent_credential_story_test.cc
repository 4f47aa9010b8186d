// The credential that an agent shows in place of its token.
#include <gtest/gtest.h>

#include <string>

#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

TEST(AgentLink, ShowsItsCredentialInsteadOfItsToken) {
  AgentStory story;
  story.Tell({{0.0, StreamUp{}, "hello i11"}});
  EXPECT_EQ(story.hello().token().secret(), "s");
  EXPECT_EQ(story.hello().run(), "");
  story.Tell({
      {0.0, Welcome("credential 1"), ""},
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  EXPECT_EQ(story.hello().previous_incarnation(), 0u);
  EXPECT_EQ(story.hello().run(), "run1");
  // The latest credential replaces the first.
  story.Tell({
      {1.3, Welcome("credential 2"), ""},
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 2");
}

TEST(AgentLink, TheNextCredentialTakesTheFirstOnesPlace) {
  AgentStory story;
  FromDaemon renewed;
  renewed.message.mutable_new_credential()->set_node_credential("credential 2");
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome("credential 1"), ""},
      {0.5, renewed, ""},
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 2");
}

TEST(AgentLink, DeclaredLostItNamesTheLifeItsCredentialWasGivenTo) {
  AgentStory story;
  StreamDown lost = Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST);
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.0, Welcome("credential 1"), ""},
      {1.0, lost, ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i12"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  EXPECT_EQ(story.hello().previous_incarnation(), 11u);
  // The stream is lost again before its Welcome. The agent has no other
  // credential.
  lost.fresh_incarnation = 13;
  story.Tell({
      {1.3, lost, ""},
      {1.5, AgentTick{}, "dial"},
      {1.6, StreamUp{}, "hello i13"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  EXPECT_EQ(story.hello().previous_incarnation(), 11u);
  story.Tell({
      {1.6, Welcome("credential 2"), ""},
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i13"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 2");
  EXPECT_EQ(story.hello().previous_incarnation(), 0u);
}

TEST(AgentLink, ACredentialThatCountsNoMoreGivesWayToTheTokenOnce) {
  AgentStory story;
  StreamDown refused =
      Down(absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL);
  refused.nonce = "nonce of i11";
  story.Tell(Running(1));
  story.Tell({
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11"},
      {1.3, Welcome("credential 1"), ""},
      {2.0, Down(), ""},
      {2.1, AgentTick{}, "dial"},
      {2.2, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().node_credential(), "credential 1");
  // The ranks run on.
  story.Tell({
      {2.3, refused, ""},
      {2.5, AgentTick{}, "dial"},
      {2.6, StreamUp{}, "hello i11"},
  });
  EXPECT_EQ(story.hello().token().secret(), "s");
  EXPECT_EQ(story.hello().resume_state().running_generation(), 1u);
  // The token does not prove that this is the member of the journaled world.
  // The agent becomes a new one once its ranks have ended.
  story.Tell({
      {2.7, refused, "ABORT 1; STOP 0,1 15s"},
      {2.8, AgentTick{}, "dial"},
      {2.9, StreamUp{}, "hello i11"},
      {3.0, refused, ""},
      {3.1, Gone(1), ""},
      {3.5, AgentTick{}, "dial"},
      {3.6, StreamUp{}, "hello i11"},
      {3.7, refused, ""},
      {4.8, AgentTick{}, "dial"},
      {4.9, StreamUp{}, "hello i12"},
  });
  EXPECT_EQ(story.hello().token().secret(), "s");
  EXPECT_EQ(story.hello().previous_incarnation(), 0u);
  ASSERT_EQ(story.hello().swept_nonces_size(), 1);
  EXPECT_EQ(story.hello().swept_nonces(0), "nonce of i11");
}

TEST(AgentLink, WithoutAWorldARefusedTokenEndsTheAgent) {
  AgentStory story;
  story.Tell({
      {0.0, StreamUp{}, "hello i11"},
      {0.1,
       Down(absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL),
       "EXIT 77"},
  });
}

TEST(AgentLink, AWelcomeInBetweenBeginsAnew) {
  AgentStory story;
  const StreamDown refused =
      Down(absl::StatusCode::kUnauthenticated, v1::REFUSAL_CODE_CREDENTIAL);
  story.Tell({{0.0, StreamUp{}, "hello i11"}});
  for (double at = 1; at < 4; ++at) {
    story.Tell({
        {at, Welcome("credential"), ""},
        {at + 0.1, Down(), ""},
        {at + 0.2, AgentTick{}, "dial"},
        {at + 0.3, StreamUp{}, "hello i11"},
        {at + 0.4, refused, ""},
        {at + 0.5, AgentTick{}, "dial"},
        {at + 0.6, StreamUp{}, "hello i11"},
    });
    EXPECT_TRUE(story.hello().has_token());
  }
  story.Tell({{5.0,
               Down(absl::StatusCode::kUnauthenticated,
                    v1::REFUSAL_CODE_TOKEN_EXPIRED),
               "EXIT 77"}});
}

TEST(AgentLink, ACredentialThatIsTooLongIsNone) {
  for (const size_t bytes : {64, 65}) {
    AgentStory story;
    story.Tell({
        {0.0, StreamUp{}, "hello i11"},
        {0.0, Welcome(std::string(bytes, 'c')), ""},
        {1.0, Down(), ""},
        {1.1, AgentTick{}, "dial"},
        {1.2, StreamUp{}, "hello i11"},
    });
    EXPECT_EQ(story.hello().has_node_credential(), bytes == 64);
    EXPECT_EQ(story.hello().has_token(), bytes == 65);
  }
}

}  // namespace
}  // namespace rollcall
