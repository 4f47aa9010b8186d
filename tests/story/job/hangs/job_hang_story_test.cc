// Ranks that run and make no progress: which one is to blame.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/failures/root_cause.h"
#include "tests/story/job/hangs/stalled_rank.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

TEST(Hang, WhoIsToBlame) {
  struct Row {
    const char* what;
    Seen a, b, c;
    std::string expect;  // The blamed node; empty: none.
    std::string words;
  };
  const Row kRows[] = {
      {"a stopped one, however far",
       kWaits,
       {10, 9, false, true},
       kWaits,
       "b",
       "it is stopped"},
      {"a stopped one before one that does not answer",
       {0, 0, false},
       kWaits,
       {9, 8, false, true},
       "c",
       "it is stopped"},
      {"one that does not answer",
       kWaits,
       kWaits,
       {-1, -1, false},
       "c",
       "it does not answer"},
      {"who has not entered what the others wait in",
       kWaits,
       {8, 8},
       kWaits,
       "b",
       "it has left collective 8 and has entered no other, while others are "
       "in 9"},
      {"who is inside of an earlier one",
       {10, 9},
       {10, 9},
       {9, 8},
       "c",
       "it is in collective 9, while others are in 10"},
      {"who has reported none",
       kWaits,
       {-1, -1},
       kWaits,
       "b",
       "it has reported no collective, while others have begun 9"},
      {"nobody, where all are in the same one", kWaits, kWaits, kWaits, "",
       "all 3 ranks are in collective 9"},
      {"nobody, where all have left the same one",
       {8, 8},
       {8, 8},
       {8, 8},
       "",
       "all 3 ranks have left collective 8"},
      {"the first, where nobody counts",
       {-1, -1},
       {-1, -1},
       {-1, -1},
       "a",
       "it was the first to stall"},
      {"the first of plain commands",
       {-1, -1, true, false, false},
       {-1, -1, true, false, false},
       {-1, -1, true, false, false},
       "a",
       "it was the first to stall"},
      {"nobody, where only one is said to be ahead",
       kWaits,
       {10, 9},
       kWaits,
       "",
       "only rank 1 on b is reported ahead of the others (it is in "
       "collective 10)"},
      {"one that claims what the others cannot have let it reach",
       kWaits,
       kWaits,
       {int64_t{1} << 40, int64_t{1} << 40},
       "c",
       "it has left collective 1099511627776 and has entered no other by its "
       "own report, over 1024 ahead of the others, which are in 9"},
      {"one that counts before a plain one",
       kWaits,
       {-1, -1, true, false, false},
       {8, 8},
       "c",
       "it has left collective 8"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    JobStory story = ThreeRunning("2:3");
    const std::string blamed =
        row.expect.empty() ? "" : absl::StrCat(" ", row.expect, "/0");
    story.Tell({
        {1.0, Stands("a", 1, row.a), ""},
        {1.1, Stands("b", 1, row.b), ""},
        {1.2, Stands("c", 1, row.c),
         absl::StrCat("abort g1 HANG", blamed, "; form g2 a,b,c")},
    });
    const v1::JobStatus status = story.job().Status(story.now());
    EXPECT_EQ(status.root_cause().code(), v1::REASON_CODE_HANG);
    EXPECT_EQ(status.root_cause().node(), row.expect);
    EXPECT_EQ(status.root_cause().rank(),
              row.expect.empty() ? -1 : row.expect[0] - 'a');
    EXPECT_NE(Describe(status.root_cause()).find(row.words), std::string::npos)
        << Describe(status.root_cause());
    EXPECT_EQ(status.restarts_charged(), 1u);
  }
}

// A false report of a member costs its own seat, and no other.
TEST(Hang, AFalseClaimQuarantinesWhoMakesIt) {
  JobStory story = ThreeRunning("2:3");
  const Seen far{int64_t{1} << 40, int64_t{1} << 40};
  story.Tell({
      {1.0, Stands("c", 1, far), ""},
      {1.1, Stands("a", 1, kWaits), ""},
      {1.2, Stands("b", 1, kWaits), "abort g1 HANG c/0; form g2 a,b,c"},
      {1.3, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {1.4, Stands("c", 2, far), ""},
      {1.5, Stands("a", 2, kWaits), ""},
      {1.6, Stands("b", 2, kWaits), "abort g2 HANG c/0; form g3 a,b"},
  });
  EXPECT_EQ(story.job().Status(story.now()).root_cause().node(), "c");
}

TEST(Hang, WhatIsTakenBackWasNothing) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {4.0, Stands("a", 1, kWaits), ""},
      {4.0, Stands("b", 1, kWaits), ""},
      {4.1, GoesOn("a", 1), ""},
      {4.1, GoesOn("b", 1), ""},
      {4.2, Stands("c", 1, {8, 8}), ""},
      {4.3, GoesOn("c", 1), ""},
      {8.0, BeatsAll({"a", "b", "c"}), ""},
      {12.0, BeatsAll({"a", "b", "c"}), ""},
      {14.5, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Hang, OnlyOfTheGenerationThatRuns) {
  JobStory story("3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, Stands("a", 1, kWaits), ""},  // Nothing runs yet.
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
      {0.2, Stands("b", 1, kWaits), ""},
      {0.3, Exits("c", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.5, Stands("a", 1, kWaits), ""},  // Too late.
      {0.5, Stands("c", 1, kWaits), ""},
      {0.6, Stands("b", 2, kWaits), ""},
      {0.7, Stands("c", 2, {8, 8}), ""},
      {0.8, Stands("a", 2, kWaits), "abort g2 HANG c/0; form g3 a,b,c"},
  });
}

TEST(Hang, ARankThatThereIsNotIsAMistakeOfTheAgent) {
  JobStory story = ThreeRunning("3");
  Seen odd = kWaits;
  odd.local_rank = 1;
  story.Tell({{1.0, Stands("b", 1, odd), "refuse b INVALID"}});
}

TEST(Hang, RanksThatAreDoneStandForNothing) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.1, Exits("a", 1, 0), ""},
      {1.2, Stands("a", 1, kWaits), ""},
      {1.3, Stands("b", 1, kWaits), ""},
      {1.4, Stands("c", 1, {8, 8}), "abort g1 HANG c/0; form g2 a,b,c"},
  });
}

TEST(Hang, ABoundaryWithADeadlineComesFirst) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Drains("b", 3), "notice 1 DRAIN b"},
      {1.1, Stands("a", 1, kWaits), ""},
      {1.1, Stands("b", 1, {8, 8}), ""},
      {1.1, Stands("c", 1, kWaits), ""},
      {5.0, Ticks(), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(Hang, ABoundaryThatNobodyComesToDoesNot) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Stands("a", 1, kWaits), ""},
      {1.1, Stands("b", 1, {8, 8}), ""},
      {1.1, Stands("c", 1, kWaits), "abort g1 HANG b/0; form g2 a,c"},
  });
}

TEST(Hang, ItCostsARestartAndTheLastOneIsTheEnd) {
  JobStory story = ThreeRunning("3", /*max_restarts=*/0);
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.0, Stands("b", 1, {8, 8}), ""},
      {1.0, Stands("c", 1, kWaits), "abort g1 HANG b/0"},
      {1.1, Stops("a", 1), ""},
      {1.1, Stops("b", 1), ""},
      {1.2, Stops("c", 1), "end 1 HANG"},
  });
}

TEST(Hang, TimeAloneIsNoProgressOfAWorldThatStands) {
  JobStory story = OneRunning("1", /*max_restarts=*/1);
  story.Tell({
      {700.0, Stands("a", 1, {0, 0}), "abort g1 HANG a/0; form g2 a"},
      {700.1, Prepares("a", 2), "run g2"},
      {1400.0, Stands("a", 2, {0, 0}), "abort g2 HANG a/0"},
  });
}

TEST(Hang, ALostNodeOutranksIt) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.0, Stands("b", 1, {8, 8}), ""},
      {1.0, Stands("c", 1, kWaits), "abort g1 HANG b/0; form g2 a,b,c"},
      {1.1, Breaks("c"), ""},
      {2.1, Ticks(), "abort g2 LOST_STREAM; form g3 a,b"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.root_cause().node(), "c");
  EXPECT_EQ(status.restarts_charged(), 0u);
}

TEST(Hang, AnAgentWithAnotherLimitIsTold) {
  HelloOptions options;
  ToProto(absl::Seconds(3), options.settings.mutable_hang_timeout());
  JobStory story("2");
  story.Tell({{0.0, Attends("a", 1, options), "refuse a SETTINGS"}});
}

}  // namespace
}  // namespace rollcall
