// How a job ends, and what each agent is told about the end.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// --- The end -----------------------------------------------------------------

TEST(Ending, AllRanksExitZero) {
  JobStory story("2");
  HelloOptions two;
  two.ranks = 2;
  story.Tell({
      {0.0, Attends("a", 1, two), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 0, 0, 0), ""},
      {0.2, Exits("a", 1, 0, 0, 0), ""},  // A retry is not a second rank.
      {0.3, Exits("b", 1, 0), ""},
      {0.4, Exits("a", 1, 0, 0, 1), "end 0 FINISHED"},
      {0.5, SeesEnd("a"), ""},
      {0.6, SeesEnd("b"), "forget"},
  });
}

TEST(Ending, ANodeWhoseWorkIsDoneMayGo) {
  JobStory story = TwoRunning("2");
  story.Tell({
      {0.2, Exits("a", 1, 0), ""},
      {0.3, Breaks("a"), ""},
      {1.3, Ticks(), ""},
      {1.4, Exits("b", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Ending, WhoComesAfterTheEndIsToldIt) {
  JobStory story = OneRunning("1");
  story.Tell({
      {0.2, Exits("a", 1, 0), "end 0 FINISHED"},
      {0.3, Attends("b"), "end 0 FINISHED"},
      {0.4, SeesEnd("b"), ""},
      {0.5, SeesEnd("a"), "forget"},
  });
}

TEST(Ending, WhoHasHeardOfItCountsAmongThoseThatAreRemembered) {
  JobStory story("1");
  story.Tell({{0.0, Attends("a"), "form g1 a"},
              {0.1, StopIsAsked(3), "end 3 STOPPED"}});
  constexpr size_t kMax = Limits::nodes_max + Limits::lost_names_max;
  for (size_t i = 1; i < kMax; ++i) {
    const std::string name = absl::StrCat("n", i);
    ASSERT_EQ(Attends(name)(story), "end 3 STOPPED");
    ASSERT_EQ(SeesEnd(name)(story), "");
  }
  EXPECT_EQ(Attends("late")(story), "refuse late LIMIT");
}

TEST(Ending, LingersForTheDeafOneLeaseAtMost) {
  JobStory story = OneRunning("1");
  story.Tell({
      {0.2, Exits("a", 1, 0), "end 0 FINISHED"},
      {5.1, Ticks(), ""},
      {5.2, Ticks(), "forget"},
  });
}

// Agents that attend get a grace in which their ranks stop. An agent whose
// stream is broken has one lease to come back and be told of the end.
TEST(Ending, WhoIsAwayIsWaitedForOneLeaseAlone) {
  JobStory story = TwoRunning("2");
  story.Tell({
      {0.5, Breaks("b"), ""},
      {0.9, StopIsAsked(143), "notice 1 PREEMPT"},
      {1.0, StopIsAskedNow(143), "end 143 STOPPED"},
      {2.0, SeesEnd("a"), ""},
      {5.9, Ticks(), ""},
      {6.0, Ticks(), "forget"},
  });
}

TEST(Ending, StopEndsTheJobWithItsCode) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, StopIsAsked(130), "end 130 STOPPED"},
      {0.2, StopIsAsked(1), ""},
  });
}

TEST(Ending, WhoHasNoPatienceIsHeardTwice) {
  JobStory story("2");
  const auto stop = [](bool now) {
    return [now](JobStory& s) {
      return s.Step(StopAsked{130, v1::REASON_CODE_STOPPED, "asked", now});
    };
  };
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, stop(false), "end 130 STOPPED"},
      {0.2, stop(true), "end 130 STOPPED"},
      {0.3, stop(true), ""},
  });
}

TEST(Ending, ALeavingNodeGoesAndTheRestGoesOn) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Leaves("b"), "notice 1 DRAIN b"},
      {1.0, Sees("a", 1), ""},
      {1.0, Sees("b", 1), ""},
      {1.0, Sees("c", 1), "abort g1 LEAVING; form g2 a,c"},
      {1.1, Stops("b", 1), "end 0 LEAVING"},
      {1.2, Breaks("b"), ""},
      {1.3, PreparesAll({"a", "c"}, 2), "run g2"},
  });
}

TEST(Ending, ASpareThatWasNeverUsedExitsZero) {
  JobStory story = TwoRunning("2", 0);
  story.Tell({
      {0.2, Attends("c"), ""},
      {0.3, Exits("a", 1, 3), "abort g1 RANK_EXIT"},
      {0.4, Stops("a", 1), ""},
      {0.5, Stops("b", 1), "end 3 RANK_EXIT; end 0 RANK_EXIT"},
  });
}

// b was a member and was declared lost. The same agent attends again, as a
// spare.
std::vector<JobStory::Row> ServedAndSpare() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Attends("c"), ""},
      {1.0, Breaks("b"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, PreparesAll({"a", "c"}, 2), "run g2"},
      {2.2, Attends("b", 2, NextOf(1)), ""},
  };
}

TEST(Ending, ASpareThatHasServedExitsAsTheJob) {
  JobStory story("2");
  story.Tell(ServedAndSpare());
  story.Tell({{2.3, StopIsAskedNow(7), "end 7 STOPPED"}});
}

TEST(Ending, ASpareThatServedBeforeADaemonsRestartExitsAsTheJob) {
  JobStory before("2");
  before.Tell(ServedAndSpare());
  const auto end = [&](uint64_t generation_seen) {
    JobStory story(Job::Restore("demo", StateOf(before, true), Limits(),
                                absl::UnixEpoch()),
                   before);
    HelloOptions spare = Holds(0, 0);
    spare.generation_seen = generation_seen;
    story.Tell({
        {0.1, Attends("a", 1, Holds(0, 2)), ""},
        {0.1, Attends("c", 1, Holds(0, 2)), ""},
        {0.1, Attends("b", 2, spare), ""},
    });
    return StopIsAskedNow(7)(story);
  };
  EXPECT_EQ(end(1), "end 7 STOPPED");
  EXPECT_EQ(end(0), "end 7 STOPPED; end 0 STOPPED");
}

TEST(Ending, LeavingBetweenGenerationsEndsTheJobForRequeueToo) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.5, Breaks("b"), ""},
      // a is lost; b is still suspect, and no world is formed.
      {2.0, Ticks(), "abort g1 LOST_STREAM"},
      {2.1, Leaves("c"), "end 75 REQUEUE"},
  });
}

TEST(Ending, ANodeThatIsDoneLeavesWithoutHarm) {
  JobStory story = TwoRunning("2");
  story.Tell({
      {0.2, Exits("a", 1, 0), ""},
      {0.3, Leaves("a"), "end 0 LEAVING"},
      {0.4, Breaks("a"), ""},
      {0.5, Exits("b", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Ending, BelowMinALeavingNodeEndsTheJobForRequeue) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Leaves("b"), "notice 1 PREEMPT b"},
      {1.1, Sees("a", 1), ""},
      {1.1, Sees("b", 1), ""},
      {1.1, Sees("c", 1), "end 75 REQUEUE"},
  });
}

// --- A stop that is asked for ------------------------------------------------

TEST(Stop, RanksComeToABoundaryFirstAndASecondAskingEndsAtOnce) {
  JobStory story = TwoRunning("2");
  story.Tell({
      {1.0, StopIsAsked(130), "notice 1 PREEMPT"},
      {1.0, StopIsAsked(130), ""},
      {1.2, Sees("a", 1), ""},
      {1.3, StopIsAskedNow(130), "end 130 STOPPED"},
  });
}

TEST(Stop, NobodyIsWaitedForBeyondTheNoticeTime) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, StopIsAsked(143), "notice 1 PREEMPT"},
      {4.0, BeatsAll({"a", "b", "c"}), ""},
      {8.0, BeatsAll({"a", "b", "c"}), ""},
      {12.0, BeatsAll({"a", "b", "c"}), ""},
      {16.9, Ticks(), ""},
      {17.0, Ticks(), "end 143 STOPPED"},
  });
}

TEST(Stop, ADrainWithoutADeadlineDoesNotHoldItBack) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Drains("b"), "notice 1 PREEMPT b"},
      {2.0, StopIsAsked(3), "notice 2 PREEMPT b"},
      {2.5, StopIsAsked(3), ""},  // Nothing new.
      {16.0, PreparesAll({"a", "b", "c"}, 9), ""},
      {18.0, Ticks(), "end 3 STOPPED"},
  });
}

TEST(Stop, WhoFailsMeanwhileIsAskedForNoChecks) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, StopIsAsked(143), "notice 1 PREEMPT"},
      {1.1, Exits("a", 1, 7), "abort g1 RANK_EXIT; end 143 STOPPED"},
  });
}

TEST(Stop, ALossMeanwhileEndsItToo) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, StopIsAsked(143), "notice 1 PREEMPT"},
      {1.1, Breaks("b"), ""},
      {2.1, Ticks(), "abort g1 LOST_STREAM; end 143 STOPPED"},
  });
}

}  // namespace
}  // namespace rollcall
