// Nodes that run a set-up command before they get a seat (--setup).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

HelloOptions SettingUp(v1::JobSettings settings = {}) {
  HelloOptions options;
  options.setting_up = true;
  options.settings = std::move(settings);
  return options;
}

// a and b run generation 1, and there is room for a third node.
JobStory TwoRunningOfThree(uint32_t max_restarts = 3) {
  JobStory story("2:3", max_restarts);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {1.0, Ticks(), "form g1 a,b"},
      {1.0, PreparesAll({"a", "b"}, 1), "run g1"},
  });
  return story;
}

v1::NodeState StateIn(JobStory& story, const std::string& node) {
  return RowOf(story.job().Status(story.now()), node).state();
}

TEST(Setup, ANodeGetsASeatOnceItsSetUpHasSucceeded) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1, SettingUp()), ""},
      {0.0, Attends("b", 1, SettingUp()), ""},
      {1.0, SetsUp("a"), ""},
  });
  EXPECT_EQ(StateIn(story, "a"), v1::NODE_STATE_ATTENDING);
  EXPECT_EQ(StateIn(story, "b"), v1::NODE_STATE_SETTING_UP);
  EXPECT_EQ(story.job().Status(story.now()).missing_count(), 1u);
  story.TakeWaitingTold();
  story.Tell({{2.0, Ticks(), ""}});
  EXPECT_EQ(story.TakeWaitingTold(),
            std::vector<std::string>{"a,b: the set-up command runs on b"});
  story.Tell({{3.0, SetsUp("b"), "form g1 a,b"}});
}

TEST(Setup, TheJoinTimeoutStandsStillMeanwhile) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {300.0, BeatsAll({"a"}), ""},
      {300.0, Attends("b", 1, SettingUp()), ""},
  });
  TellBeats(story, {"a", "b"}, 800, 302);
  // 300 s of the join timeout are left.
  story.Tell({{800.0, Breaks("b"), ""}, {801.0, Ticks(), ""}});
  TellBeats(story, {"a"}, 1098, 802);
  story.Tell({{1099.9, Ticks(), ""}, {1100.0, Ticks(), "end 69 JOIN_TIMEOUT"}});
}

TEST(Setup, AJobWithEnoughNodesWaitsForTheOthersThatAttend) {
  JobStory story("1:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.5, Attends("b", 1, SettingUp()), ""},
      {2.0, BeatsAll({"a", "b"}), ""},
      {3.0, SetsUp("b"), "form g1 a,b"},
  });
}

// All seats are taken as soon as a and b have checked each other.
TEST(Setup, TheFailureOfASpareEndsNoJob) {
  v1::JobSettings settings;
  settings.set_node_check(true);
  HelloOptions checks;
  checks.checks_groups = true;
  JobStory story("2", settings);
  story.Tell({
      {0.0, Attends("a", 1, checks), ""},
      {0.0, Attends("b", 1, checks), "a checks 0/2"},
      {0.1, Attends("c", 1, SettingUp()), ""},
      {0.2, SetsUp("c", 6), "end 6 SETUP"},
  });
  EXPECT_FALSE(story.job().end().has_value());
}

TEST(Setup, AJobWithAllNodesWaitsForNoOther) {
  JobStory story("1:1");
  story.Tell({
      {0.0, Attends("b", 1, SettingUp()), ""},
      {0.5, Attends("a"), "form g1 a"},
      {0.6, Prepares("a", 1), "run g1"},
  });
  EXPECT_EQ(StateIn(story, "b"), v1::NODE_STATE_SETTING_UP);
  story.Tell({{1.0, SetsUp("b"), ""}});
  EXPECT_EQ(StateIn(story, "b"), v1::NODE_STATE_SPARE);
}

// setup_timeout + stop_grace + lease, by the daemon's clock: 620 s.
TEST(Setup, NoNodeHoldsUpAJobForLonger) {
  JobStory story("1:2");
  story.Tell(
      {{0.0, Attends("a"), ""}, {0.0, Attends("b", 1, SettingUp()), ""}});
  TellBeats(story, {"a", "b"}, 300, 2);
  // Another incarnation of b, and another name, do not get the time again.
  story.Tell({{300.0, Attends("c", 1, SettingUp()), ""},
              {300.1, Breaks("b"), ""},
              {301.2, Ticks(), ""},
              {301.3, Attends("b", 2, SettingUp()), ""}});
  TellBeats(story, {"a", "b", "c"}, 618, 302);
  story.Tell({{619.9, Ticks(), ""}, {620.0, Ticks(), "form g1 a"}});
}

TEST(Setup, NorTheJoinTimeout) {
  JobStory story("2");
  story.Tell(
      {{0.0, Attends("a"), ""}, {0.0, Attends("b", 1, SettingUp()), ""}});
  TellBeats(story, {"a", "b"}, 1219, 2);
  story.Tell({{1221.0, Ticks(), "end 69 JOIN_TIMEOUT"}});
  EXPECT_TRUE(absl::StrContains(story.job().end()->reason(),
                                "the set-up command runs on b"))
      << story.job().end()->reason();
}

TEST(Setup, AFailureBeforeTheFirstWorldEndsTheJob) {
  const struct {
    int code;
    int signal;
    bool timed_out;
    int exit_code;
  } kRows[] = {{7, 0, false, 7}, {0, 9, false, 137}, {124, 0, true, 124}};
  for (const auto& row : kRows) {
    JobStory story("2");
    story.Tell({
        {0.0, Attends("a", 1, SettingUp()), ""},
        {0.0, Attends("b", 1, SettingUp()), ""},
        {1.0, SetsUp("a"), ""},
        {2.0, SetsUp("b", row.code, row.signal, row.timed_out),
         absl::StrCat("end ", row.exit_code, " SETUP")},
    });
    const v1::End& end = *story.job().end();
    EXPECT_EQ(end.root_cause().code(), v1::REASON_CODE_SETUP);
    EXPECT_EQ(end.root_cause().node(), "b");
    EXPECT_EQ(end.root_cause().value(), row.exit_code);
    EXPECT_EQ(end.root_cause().stderr_tail(), "no space left");
    EXPECT_FALSE(end.has_linger());
    EXPECT_EQ(story.job().Status(story.now()).root_cause().node(), "b");
  }
}

TEST(Setup, AFailureIsKeptForTheTimeOfLinger) {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(2);
  settings.mutable_linger()->set_seconds(60);
  JobStory story(Job("demo", "run1", settings, Limits(), absl::UnixEpoch()),
                 JobStory("2"));
  story.Tell({
      {0.0, Attends("a", 1, SettingUp()), ""},
      {0.0, Attends("b", 1, SettingUp()), ""},
      {1.0, SetsUp("b", 7), "end 7 SETUP"},
  });
  EXPECT_EQ(story.job().end()->linger().seconds(), 60);
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_LINGERING);
  // A person stops it; what is in flight of a's set-up changes nothing.
  story.Tell({
      {2.0, StopIsAsked(1), "end 7 SETUP"},
      {2.1, SetsUp("a", 9), ""},
      {2.2, SeesEnd("a"), ""},
      {2.3, SeesEnd("b"), "forget"},
  });
}

TEST(Setup, AFailedNewcomerEndsOnlyItself) {
  JobStory story = TwoRunningOfThree();
  story.Tell({
      {1.0, Attends("c", 1, SettingUp()), ""},
      {2.0, BeatsAll({"a", "b", "c"}), ""},
      {3.0, SetsUp("c", 7), "end 7 SETUP"},
  });
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=setup_failed node=c"))
      << story.logs();
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  story.Tell({
      {3.1, Breaks("c"), ""},
      {4.0, BeatsAll({"a", "b"}), ""},
      // A new agent of that node is as welcome as any.
      {4.1, Attends("c", 2, SettingUp()), ""},
      {4.2, SetsUp("c"), "notice 1 GROW"},
  });
}

// It has no credit for a second SetupEnded, and gets no seat by a new stream.
TEST(Setup, AFailedNewcomerThatStaysGetsNoSeat) {
  JobStory story = TwoRunningOfThree();
  story.Tell({
      {1.0, Attends("c", 1, SettingUp()), ""},
      {1.1, SetsUp("c", 7), "end 7 SETUP"},
      // Its agent, which has not received the End, says it again.
      {1.2, Attends("c", 1, SettingUp()), "refuse c REDIALED"},
      {1.2, SetsUp("c", 7), "end 7 SETUP"},
      {1.2, Attends("c", 1), "refuse c REDIALED"},
      {1.3, BeatsAll({"a", "b", "c"}), ""},
      {1.4, SetsUp("c"), "refuse c INVALID"},
  });
  EXPECT_EQ(StateIn(story, "c"), v1::NODE_STATE_SPARE);
}

TEST(Setup, ANewcomerThatIsSetUpIsTakenIn) {
  JobStory story = TwoRunningOfThree();
  story.Tell({
      {1.0, Attends("c", 1, SettingUp()), ""},
      {2.0, BeatsAll({"a", "b", "c"}), ""},
      {3.0, SetsUp("c"), "notice 1 GROW"},
  });
}

TEST(Setup, ANewcomerThatIsSetUpWhenTheJobEndsWasNeverUsed) {
  JobStory story = TwoRunningOfThree(0);
  story.Tell({
      {1.0, Attends("c", 1, SettingUp()), ""},
      {1.1, Exits("a", 1, 7), "abort g1 RANK_EXIT"},
      {1.2, Stops("a", 1), ""},
      {1.2, Stops("b", 1), "end 7 RANK_EXIT; end 0 RANK_EXIT"},
  });
}

// The next world does not wait for a newcomer's set-up.
TEST(Setup, ALostMemberIsReplacedByWhoIsThere) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {0.5, Attends("d", 1, SettingUp()), ""},
      {1.0, Breaks("c"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
  });
}

TEST(Setup, EndsOnceAndOnlyIfHelloSaidSo) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b", 1, SettingUp()), ""},
      {0.1, SetsUp("a"), "refuse a INVALID"},
      {0.2, SetsUp("b"), "form g1 a,b"},
      {0.3, SetsUp("b"), "refuse b INVALID"},
  });
}

TEST(Setup, ARedialSaysWhetherItStillRuns) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b", 1, SettingUp()), ""},
      {0.1, Breaks("b"), ""},
      {0.2, Attends("b", 1, SettingUp()), ""},
      {0.3, Breaks("b"), ""},
      {0.4, Attends("b", 1), "form g1 a,b"},
  });
}

TEST(Setup, AMemberCannotSayThatItSetsUp) {
  JobStory story = TwoRunning("2");
  HelloOptions options = Holds(1, 1);
  options.setting_up = true;
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.1, Attends("b", 1, options), ""},
  });
  EXPECT_EQ(StateIn(story, "b"), v1::NODE_STATE_RUNNING);
}

TEST(Setup, ADrainedNodeIsToldToLeaveMeanwhile) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b", 1, SettingUp()), ""},
      {0.1, Drains("b"), "end 0 LEAVING"},
      {0.2, Breaks("b"), ""},
  });
}

// The journal has nothing of it: the agents' Hellos say it again.
TEST(Setup, ARestartedDaemonLearnsItFromTheHello) {
  JobStory before = TwoRunningOfThree();
  JobStory after = RestartOf(before);
  HelloOptions options = SettingUp();
  options.run = "run1";
  after.Tell({
      {0.1, Attends("a", 1, Holds(1, 1)), ""},
      {0.1, Attends("b", 1, Holds(1, 1)), ""},
      {0.2, Attends("c", 1, options), ""},
  });
  EXPECT_EQ(StateIn(after, "c"), v1::NODE_STATE_SETTING_UP);
  after.Tell({{0.3, SetsUp("c"), "notice 1 GROW"}});
}

}  // namespace
}  // namespace rollcall
