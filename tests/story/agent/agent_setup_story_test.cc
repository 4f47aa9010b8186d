// An agent with a set-up command (--setup).
#include <csignal>

#include "daemon/base/durations.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

FromDaemon SetupEnd(double linger_s = 0) {
  FromDaemon end = EndOf(7, v1::REASON_CODE_SETUP);
  if (linger_s > 0) {
    ToProto(absl::Seconds(linger_s),
            end.message.mutable_end()->mutable_linger());
  }
  return end;
}

// The rows until the command runs.
std::vector<AgentStory::Row> SettingUp() {
  return {{0.0, StreamUp{}, "hello i11 setting up"},
          {0.1, WelcomeToSetup(), "SET UP"}};
}

TEST(AgentSetup, RunsBeforeTheNodeGetsASeat) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {1.1, AgentTick{}, "beat 0"},
      {2.0, SetupShellEnded{}, ""},
      // Until then its children may run.
      {2.1, SetupGone{}, "set-up 0/0 in 1"},
      {2.2, Proposal(1), "PREPARE 1"},
      {2.3, PreparationDone{1}, "prepared 1"},
      {2.4, CommitOf(1), "START 1 port 23456"},
      {3.0, Down(), ""},
      {3.1, AgentTick{}, "dial"},
      {3.2, StreamUp{}, "hello i11"},
      {3.2, WelcomeToSetup(), ""},
  });
}

TEST(AgentSetup, AWorldMeanwhileIsRefused) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({{0.2, Proposal(1), "refused 1"}});
}

TEST(AgentSetup, AnOlderDaemonWouldNotWait) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(
      {{0.0, StreamUp{}, "hello i11 setting up"}, {0.1, Welcome(), "EXIT 69"}});
}

TEST(AgentSetup, ANewStreamDoesNotRunItAgain) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i11 setting up"},
      {1.3, WelcomeToSetup(), ""},
      {1.4, Down(), ""},
      // It ends while the daemon is away, which learns it from the next Hello.
      {1.5, SetupShellEnded{}, ""},
      {1.5, SetupGone{}, ""},
      {1.6, AgentTick{}, "dial"},
      {1.7, StreamUp{}, "hello i11"},
      {1.8, WelcomeToSetup(), ""},
  });
}

TEST(AgentSetup, ANewIncarnationDoesNotRunItAgain) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {1.0, Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_LOST), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, StreamUp{}, "hello i12 setting up"},
      // It ends between the Hello and its Welcome.
      {1.3, SetupShellEnded{}, ""},
      {1.3, SetupGone{}, ""},
      {1.4, WelcomeToSetup(), "set-up 0/0 in 1"},
  });
}

TEST(AgentSetup, AFailureIsSentAgainUntilTheDaemonEndsTheNode) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {1.0, SetupShellEnded{7}, ""},
      {1.0, SetupGone{}, "set-up 7/0 in 1"},
      {1.1, Down(), ""},
      {1.2, AgentTick{}, "dial"},
      {1.3, StreamUp{}, "hello i11 setting up"},
      {1.4, WelcomeToSetup(), "set-up 7/0 in 1"},
      {1.5, SetupEnd(), "end-seen; EXIT 7"},
  });
}

TEST(AgentSetup, WithoutADaemonTheAgentExitsAsItsCommandDid) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {1.0, Down(), ""},
      {1.1, AgentTick{}, "dial"},
      {1.2, SetupShellEnded{0, SIGSEGV}, ""},
      {1.2, SetupGone{}, ""},
      {601.0, AgentTick{}, "EXIT 139"},
  });
}

TEST(AgentSetup, IsRunAgainAsOftenAsItsRetriesSay) {
  AgentStory story = AgentStory::WithSetup(2);
  story.Tell(SettingUp());
  story.Tell({
      {0.5, SetupShellEnded{7}, ""},
      {0.5, SetupGone{}, ""},
      {1.4, AgentTick{}, "beat 0"},
      {1.5, AgentTick{}, "SET UP"},
      {1.6, SetupShellEnded{8}, ""},
      {1.6, SetupGone{}, ""},
      {2.6, AgentTick{}, "beat 0; SET UP"},
      {2.7, SetupShellEnded{9}, ""},
      {2.7, SetupGone{}, "set-up 9/0 in 3"},
  });
}

TEST(AgentSetup, IsEndedWhenItsTimeIsOver) {
  AgentStory story = AgentStory::WithSetup(2);
  FromDaemon welcome = WelcomeToSetup();
  ToProto(absl::Seconds(3), welcome.message.mutable_welcome()
                                ->mutable_settings()
                                ->mutable_setup_timeout());
  story.Tell({
      {0.0, StreamUp{}, "hello i11 setting up"},
      {0.0, welcome, "SET UP"},
      {2.9, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "STOP SET-UP 15s"},
      {4.0, SetupShellEnded{0, SIGTERM}, ""},
      {4.1, SetupGone{}, "set-up 124/0 timed out in 1"},
  });
}

TEST(AgentSetup, TheAgentExitsWhenNothingOfItIsLeft) {
  const struct {
    AgentEvent event;
    std::string expect;
  } kRows[] = {
      {EndOf(3), "STOP SET-UP 15s"},
      // That of another node has failed.
      {EndOf(7, v1::REASON_CODE_SETUP), "STOP SET-UP 1s"},
      {Down(absl::StatusCode::kAborted, v1::REFUSAL_CODE_EVICTED),
       "STOP SET-UP 15s"},
  };
  for (const auto& row : kRows) {
    AgentStory story = AgentStory::WithSetup(2);
    story.Tell(SettingUp());
    story.Tell({{1.0, row.event, row.expect},
                {1.1, LeaveAsked{SIGINT}, "STOP SET-UP 0"},
                {2.0, SetupShellEnded{0, SIGTERM}, ""}});
    const std::vector<AgentAction> last =
        story.agent().Step(SetupGone{}, absl::UnixEpoch() + absl::Seconds(3));
    ASSERT_FALSE(last.empty());
    EXPECT_TRUE(std::holds_alternative<Exit>(last.back()));
  }
}

TEST(AgentSetup, ANodeOfAJobThatLingersStays) {
  AgentStory story = AgentStory::WithSetup(2);
  story.Tell(SettingUp());
  story.Tell({
      // The set-up of another node has failed; this one goes on.
      {1.0, SetupEnd(60), ""},
      {2.0, SetupShellEnded{7}, ""},
      {2.0, SetupGone{}, ""},
      {60.9, AgentTick{}, "beat 0"},
      {61.0, AgentTick{}, "end-seen; EXIT 7"},
  });
}

TEST(AgentSetup, AStopEndsTheLinger) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {0.5, SetupShellEnded{7}, ""},
      {0.5, SetupGone{}, "set-up 7/0 in 1"},
      {1.0, SetupEnd(60), ""},
      {2.0, SetupEnd(), "end-seen; EXIT 7"},
  });
}

TEST(AgentSetup, ASignalEndsTheLingerAndACommandThatStillRuns) {
  AgentStory story = AgentStory::WithSetup(0);
  story.Tell(SettingUp());
  story.Tell({
      {1.0, SetupEnd(60), ""},
      {2.0, LeaveAsked{SIGINT}, "STOP SET-UP 0"},
      {2.1, SetupShellEnded{0, SIGKILL}, ""},
      {2.2, SetupGone{}, "end-seen; EXIT 7"},
  });
}

}  // namespace
}  // namespace rollcall
