// Nodes that fall silent, or whose streams break, many at the same time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

using Row = JobStory::Row;

std::vector<Row> FourRun() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), ""},
      {0.0, Attends("d"), "form g1 a,b,c,d"},
      {0.1, PreparesAll({"a", "b", "c", "d"}, 1), "run g1"},
  };
}

TEST(Silence, OverHalfOfTheWorldIsTheDaemonsOwn) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {2.0, Beats("a"), ""},
      {4.0, Beats("a"), ""},
      {5.1, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  story.Tell({
      {6.0, Beats("a"), ""},
      {30.0, Ticks(), ""},
      {31.0, Beats("b"), ""},
  });
  // With c, two of four are heard, so half are back.
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  story.Tell({
      {31.5, Beats("c"), ""},
      {32.0, Beats("a"), ""},
      {34.0, BeatsAll({"a", "b", "c"}), ""},
      // d has one more lease.
      {35.9, Ticks(), ""},
      {36.0, Ticks(), "refuse d LOST; abort g1 LOST_LEASE; form g2 a,b,c"},
  });
}

TEST(Silence, HalfOfTheWorldIsLost) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, BeatsAll({"a", "b"}), ""},
      {5.1, Ticks(),
       "refuse c LOST; abort g1 LOST_LEASE; refuse d LOST; form g2 a,b"},
  });
}

TEST(Silence, NobodyIsWaitedForBeyondDaemonGrace) {
  JobStory story("1:4");
  story.Tell(FourRun());
  for (double t = 1.5; t < 605.1; t += 1.5) {
    story.Tell({{t, Beats("a"), ""}, {t, Ticks(), ""}});
  }
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  story.Tell({{606.0, Ticks(),
               "refuse b LOST; abort g1 LOST_LEASE; refuse c LOST; refuse d "
               "LOST; form g2 a"}});
}

TEST(Silence, AStalledLoopIsolatesNobodyForLess) {
  JobStory story("1:4");
  story.Tell(FourRun());
  for (double t = 1.5; t < 601.0; t += 1.5) {
    story.Tell({{t, Beats("a"), ""}, {t, Ticks(), ""}});
  }
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  // The loop was 17 s late, in which it could not receive from agents.
  // daemon_grace is extended by that.
  story.Tell({
      {618.0, Ticks(17), ""},
      {618.0, Beats("a"), ""},
      {621.0, Beats("a"), ""},
      {622.9, Ticks(), ""},
      {623.1, Ticks(),
       "refuse b LOST; abort g1 LOST_LEASE; refuse c LOST; refuse d LOST; "
       "form g2 a"},
  });
}

TEST(Silence, AnIsolatedDaemonStillHearsThatOneWasReplaced) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {5.1, Ticks(), ""},
      {6.0, Breaks("b"), ""},
      {6.1, Attends("b", 2), "abort g1 REPLACED"},
      // Two of three are still silent.
      {7.0, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
}

TEST(Silence, AnIsolatedDaemonAbortsNobodyForADrain) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {3.0, Drains("a", 4), "notice 1 DRAIN a"},
      {5.1, Ticks(), ""},
      {7.0, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  EXPECT_GT(story.job().NextDeadline(), story.now());
  story.Tell({
      {8.0, Beats("b"), ""},
      {8.0, Ticks(), "abort g1 LEAVING; form g2 b,c,d"},
  });
}

TEST(Silence, AnIsolatedDaemonSettlesAFailure) {
  JobStory story("2:4", /*max_restarts=*/0);
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {5.1, Ticks(), ""},
      {6.0, Exits("a", 1, 7), "abort g1 RANK_EXIT"},
  });
  EXPECT_LE(story.job().NextDeadline(), story.now() + Limits().lease);
  story.Tell({{11.0, Ticks(), "end 7 RANK_EXIT"}});
}

TEST(Silence, OneThatBreaksAgainAndAgainIsStillOne) {
  JobStory story("2:4");
  story.Tell(FourRun());
  HelloOptions resumed = Holds(0, 1);
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.1, Attends("a", 1, resumed), ""},
      {1.2, Breaks("a"), ""},
      {1.3, Attends("a", 1, resumed), ""},
      {1.4, Breaks("a"), ""},
      {2.3, Ticks(), ""},
      {2.4, Ticks(), "abort g1 LOST_STREAM; form g2 b,c,d"},
  });
}

TEST(Silence, ManyStreamsThatBreakAtOnceAreLeftToTheLeases) {
  JobStory story("2:4");
  story.Tell(FourRun());
  HelloOptions resumed = Holds(0, 1);
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.1, Breaks("b"), ""},
      {1.2, Breaks("c"), ""},
      {2.5, Ticks(), ""},  // After reconnect_grace.
      {3.0, Attends("a", 1, resumed), ""},
      {3.0, Attends("b", 1, resumed), ""},
      {3.0, Attends("c", 1, resumed), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

}  // namespace
}  // namespace rollcall
