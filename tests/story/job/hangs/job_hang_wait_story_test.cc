// Ranks that run and make no progress: how long the daemon waits for reports of
// all members before it ends the generation.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/core/failures/root_cause.h"
#include "tests/story/job/hangs/stalled_rank.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

TEST(Hang, NotAllAreWaitedForWithoutEnd) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {4.0, Stands("b", 1, kWaits), ""},
      {4.0, BeatsAll({"a", "c"}), ""},
      {8.0, Beats("a"), ""},
      {8.0, Stands("b", 1, kWaits), ""},  // Repeated: the time is not reset.
      {8.0, Beats("c"), ""},
      {12.0, BeatsAll({"a", "b", "c"}), ""},
      {13.9, Ticks(), ""},
      {14.0, Ticks(), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

// b never reports its stalled rank, for which the others wait.
std::vector<JobStory::Row> OnlyAAndC(const Seen& seen) {
  std::vector<JobStory::Row> rows = {
      {1.0, Stands("a", 1, seen), ""},
      {1.5, Stands("c", 1, seen), ""},
  };
  for (const double at : {4.0, 7.0, 10.0}) {
    for (const char* node : {"a", "b", "c"}) {
      rows.push_back({at, Beats(node), ""});
    }
  }
  return rows;
}

// The reports that ranks go on arrive when the late loop runs, after the
// deadline.
TEST(Hang, ADaemonThatIsLateHearsOutTheOthers) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {4.0, Stands("b", 1, {8, 8}), ""},
      {6.0, BeatsAll({"a", "b", "c"}), ""},
      {30.0, Stands("a", 1, kWaits), ""},
      {30.0, Ticks(20), ""},
      {30.0, GoesOn("b", 1), ""},
      {30.0, GoesOn("a", 1), ""},
      {34.5, BeatsAll({"a", "b", "c"}), ""},
      {35.0, Ticks(), ""},
  });
}

TEST(Hang, WhoWaitsForOneThatSaysNothingIsNotToBlame) {
  struct Row {
    const char* what;
    Seen seen;
    std::string expect;
    const char* words;
  };
  Seen starts;
  starts.step = 0;
  const Row kRows[] = {
      {"in a collective", kWaits, "abort g1 HANG; form g2 a,b,c",
       "2 of 3 ranks are in collective 9 and wait for others: rank 1 on b"},
      {"before the first one", starts, "abort g1 HANG; form g2 a,b,c",
       "2 of 3 ranks have entered no collective and wait for others: rank 1 on "
       "b"},
      {"between two",
       {8, 8},
       "abort g1 HANG a/0; form g2 a,b,c",
       "it was the first to stall"},
      {"where nobody counts",
       {},
       "abort g1 HANG a/0; form g2 a,b,c",
       "it was the first to stall"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    JobStory story = ThreeRunning("3");
    story.Tell(OnlyAAndC(row.seen));
    story.Tell({{11.0, Ticks(), row.expect}});
    const v1::JobStatus status = story.job().Status(story.now());
    EXPECT_NE(Describe(status.root_cause()).find(row.words), std::string::npos)
        << Describe(status.root_cause());
  }
}

TEST(Hang, NobodyIsJudgedWhileAMemberIsAway) {
  JobStory story = ThreeRunning("3");
  story.Tell(OnlyAAndC(kWaits));
  story.Tell({
      {10.5, Breaks("b"), ""},
      {11.0, Ticks(), ""},
      {11.4, Attends("b", 1, Holds(0, 1)), ""},
      {12.0, Ticks(), ""},
      {12.1, Stands("b", 1, {8, 8}), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

// b is furthest behind. It reports this again after its Welcome, which a slow
// journal delays.
TEST(Hang, NobodyIsJudgedBeforeAMemberThatIsBackHasToldAgain) {
  JobStory story = ThreeRunning("3");
  TellBeats(story, {"a", "b", "c"}, 10, 2);
  story.Tell({
      {10.0, Stands("a", 1, kWaits), ""},
      {10.0, Stands("b", 1, {8, 8}), ""},
  });
  TellBeats(story, {"a", "b", "c"}, 18, 12);
  story.Tell({
      {19.5, Breaks("b"), ""},
      {19.6, Attends("b", 1, Holds(0, 1)), ""},
      {20.7, Ticks(), ""},
      {20.8, Stands("b", 1, {8, 8}), ""},
      {21.0, BeatsAll({"a", "b", "c"}), ""},
      {21.8, Ticks(), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

// A member without heartbeats delays the judgement by one lease at most.
TEST(Hang, AMemberThatTellsNothingAgainIsNotWaitedForWithoutEnd) {
  JobStory story = ThreeRunning("3");
  TellBeats(story, {"a", "b", "c"}, 10, 2);
  story.Tell({{10.0, Stands("a", 1, kWaits), ""}});
  TellBeats(story, {"a", "b", "c"}, 18, 12);
  story.Tell({
      {19.5, Breaks("b"), ""},
      {19.6, Attends("b", 1, Holds(0, 1)), ""},
      {22.0, BeatsAll({"a", "c"}), ""},
      {24.0, Stops("b", 0), ""},
      {24.5, Ticks(), ""},
      {25.5, Ticks(), "abort g1 HANG a/0; form g2 a,b,c"},
  });
}

// The member may have reported on a broken stream that its rank goes on.
TEST(Hang, AMemberThatComesBackAgainAndAgainIsNotWaitedForWithoutEnd) {
  JobStory story = ThreeRunning("2:3");
  story.Tell(
      {{10.0, Stands("a", 1, kWaits), ""}, {10.1, Stands("b", 1, kWaits), ""}});
  // c dials again each second and reports nothing.
  std::vector<JobStory::Row> rows;
  for (double at = 11; at < 29.5; at += 1) {
    rows.push_back({at, Beats("a"), ""});
    rows.push_back({at, Beats("b"), ""});
    rows.push_back({at, Attends("c", 1, Holds(0, 1)), "refuse c REDIALED"});
  }
  // The first report was at 10. The end comes 10 s and two leases of 5 s later.
  rows.push_back({30.0, Ticks(), "abort g1 HANG; form g2 a,b,c"});
  story.Tell(rows);
}

TEST(Hang, NobodyIsJudgedByWhatAMemberThatIsAwayHasSaid) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.0, Stands("b", 1, {8, 8}), ""},
      {1.2, Breaks("b"), ""},
      {1.3, Stands("c", 1, kWaits), ""},
      {1.6, Attends("b", 1, Holds(0, 1)), ""},
      {1.7, GoesOn("a", 1), ""},
      {1.7, GoesOn("c", 1), ""},
  });
  TellBeats(story, {"a", "b", "c"}, 14, 3);
  story.Tell({{14.0, Ticks(), ""}});
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Hang, ADaemonThatIsCutOffJudgesNobody) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {4.0, Stands("a", 1, kWaits), ""},
      {5.1, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  story.Tell({
      {8.0, Beats("a"), ""},
      {11.5, Ticks(), ""},
      {11.6, Beats("a"), ""},
      // Once they are back, the daemon waits for their reports first.
      {12.0, BeatsAll({"b", "c"}), ""},
      {12.1, GoesOn("a", 1), ""},
      {16.0, BeatsAll({"a", "b", "c"}), ""},
      {20.0, BeatsAll({"a", "b", "c"}), ""},
      {22.5, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// When the daemon is no longer cut off, it does not judge at once either,
// though all ranks are reported as stalled: some of these reports are old.
TEST(Hang, ADaemonThatWasCutOffHearsFirstWhatHasBecomeOfThem) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Stands("b", 1, {8, 8}), ""},
      {4.0, Stands("a", 1, kWaits), ""},
      {6.1, Ticks(), ""},
  });
  ASSERT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  story.Tell({
      {8.0, Beats("a"), ""},
      {8.1, Stands("c", 1, kWaits), ""},
      {8.2, Ticks(), ""},
      {8.3, GoesOn("b", 1), ""},
      {8.3, GoesOn("a", 1), ""},
      {8.3, GoesOn("c", 1), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// The same at the end of daemon_grace. The nodes that are lost then had
// finished.
TEST(Hang, ADaemonWhosePatienceIsOverHearsFirstWhatHasBecomeOfThem) {
  JobStory story = ThreeRunning("1:3");
  story.Tell({
      {0.5, Exits("b", 1, 0), ""},
      {0.5, Exits("c", 1, 0), ""},
      {1.0, Beats("a"), ""},
      {5.6, Ticks(), ""},
      {5.7, Stands("a", 1, kWaits), ""},
  });
  const double over = absl::ToDoubleSeconds(Limits().daemon_grace) + 5.6;
  ASSERT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  TellBeats(story, {"a"}, over - 1, 7);
  story.Tell({{over, Beats("a"), ""},
              {over, Ticks(), "refuse b LOST; refuse c LOST"}});
  ASSERT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  TellBeats(story, {"a"}, over + 9, over + 2);
  story.Tell({{over + 10, Ticks(), "abort g1 HANG a/0; form g2 a"}});
}

TEST(Hang, WhoDialsAgainTellsItAgain) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.0, Stands("b", 1, {8, 8}), ""},
      {1.1, Breaks("b"), ""},
      {1.2, Attends("b", 1, Holds(0, 1)), ""},
      {1.3, Stands("c", 1, kWaits), ""},  // b may have gone on meanwhile.
      {1.4, Stands("b", 1, {8, 8}), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

}  // namespace
}  // namespace rollcall
