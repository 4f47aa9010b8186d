// Ranks that live and stand still: when a generation ends for it, and who is to
// blame.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/core/failures/root_cause.h"
#include "tests/story/job_story.h"

namespace rollcall {
namespace {

// What an agent has seen of a rank that stands still.
struct Seen {
  int64_t entered = -1;  // -1: it counts no collectives.
  int64_t left = -1;
  bool answered = true;
  bool stopped = false;
  bool linked = true;
  uint32_t local_rank = 0;
  uint64_t step = 7;
};

Told Stands(const std::string& node, uint64_t generation, const Seen& seen) {
  v1::AgentMessage message;
  v1::RankStalled& stalled = *message.mutable_rank_stalled();
  stalled.set_generation(generation);
  stalled.set_local_rank(seen.local_rank);
  stalled.set_step(seen.step);
  if (seen.linked) stalled.set_answered(seen.answered);
  if (seen.entered >= 0) {
    stalled.set_collective_entered(static_cast<uint64_t>(seen.entered));
    stalled.set_collective_left(static_cast<uint64_t>(seen.left));
  }
  stalled.set_stopped(seen.stopped);
  stalled.set_text("sleeps");
  return Says(node, message);
}

Told GoesOn(const std::string& node, uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_generation(generation);
  message.mutable_rank_stalled()->set_goes_on(true);
  return Says(node, message);
}

const Seen kWaits{9, 8};

TEST(Hang, WhoIsToBlame) {
  struct Row {
    const char* what;
    Seen a, b, c;
    std::string expect;  // Node and local rank; empty: nobody.
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
      {"who has entered none",
       kWaits,
       {-1, -1},
       kWaits,
       "b",
       "it has entered no collective"},
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
    JobStory story("2:3");
    story.Tell(ThreeRun());
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

// The word of one member takes no seat from the others, and costs its own.
TEST(Hang, AFalseClaimQuarantinesWhoMakesIt) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
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

TEST(Hang, NotAllAreWaitedForWithoutEnd) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {4.0, Stands("b", 1, kWaits), ""},
      {4.0, Beats("a"), ""},
      {4.0, Beats("c"), ""},
      {8.0, Beats("a"), ""},
      {8.0, Stands("b", 1, kWaits), ""},  // Said again: the time stands.
      {8.0, Beats("c"), ""},
      {12.0, Beats("a"), ""},
      {12.0, Beats("b"), ""},
      {12.0, Beats("c"), ""},
      {13.9, Ticks(), ""},
      {14.0, Ticks(), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

// Which rank of a, b and c never says anything, and for which the others wait.
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

// Who goes on is heard of in the same moment.
TEST(Hang, ADaemonThatIsLateHearsOutTheOthers) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {4.0, Stands("b", 1, {8, 8}), ""},
      {6.0, Beats("a"), ""},
      {6.0, Beats("b"), ""},
      {6.0, Beats("c"), ""},
      {30.0, Stands("a", 1, kWaits), ""},
      {30.0, Ticks(20), ""},
      {30.0, GoesOn("b", 1), ""},
      {30.0, GoesOn("a", 1), ""},
      {34.5, Beats("a"), ""},
      {34.5, Beats("b"), ""},
      {34.5, Beats("c"), ""},
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
    JobStory story("3");
    story.Tell(ThreeRun());
    story.Tell(OnlyAAndC(row.seen));
    story.Tell({{11.0, Ticks(), row.expect}});
    const v1::JobStatus status = story.job().Status(story.now());
    EXPECT_NE(Describe(status.root_cause()).find(row.words), std::string::npos)
        << Describe(status.root_cause());
  }
}

TEST(Hang, NobodyIsJudgedWhileAMemberIsAway) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell(OnlyAAndC(kWaits));
  story.Tell({
      {10.5, Breaks("b"), ""},
      {11.0, Ticks(), ""},
      {11.4, Attends("b", 1, Holds(0, 1)), ""},
      {12.0, Ticks(), ""},
      {12.1, Stands("b", 1, {8, 8}), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

// The furthest behind has said so, and says it again after its Welcome, which
// a slow journal puts off.
TEST(Hang, NobodyIsJudgedBeforeAMemberThatIsBackHasToldAgain) {
  JobStory story("3");
  story.Tell(ThreeRun());
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
      {21.0, Beats("a"), ""},
      {21.0, Beats("b"), ""},
      {21.0, Beats("c"), ""},
      {21.8, Ticks(), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

// One that sends no heartbeat puts it off for one lease at most.
TEST(Hang, AMemberThatTellsNothingAgainIsNotWaitedForWithoutEnd) {
  JobStory story("3");
  story.Tell(ThreeRun());
  TellBeats(story, {"a", "b", "c"}, 10, 2);
  story.Tell({{10.0, Stands("a", 1, kWaits), ""}});
  TellBeats(story, {"a", "b", "c"}, 18, 12);
  story.Tell({
      {19.5, Breaks("b"), ""},
      {19.6, Attends("b", 1, Holds(0, 1)), ""},
      {22.0, Beats("a"), ""},
      {22.0, Beats("c"), ""},
      {24.0, Stops("b", 0), ""},
      {24.5, Ticks(), ""},
      {25.5, Ticks(), "abort g1 HANG a/0; form g2 a,b,c"},
  });
}

// It may have taken back what it said, on a stream that broke.
TEST(Hang, AMemberThatComesBackAgainAndAgainIsNotWaitedForWithoutEnd) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell(
      {{10.0, Stands("a", 1, kWaits), ""}, {10.1, Stands("b", 1, kWaits), ""}});
  // c dials again each second and says nothing.
  std::vector<JobStory::Row> rows;
  for (double at = 11; at < 29.5; at += 1) {
    rows.push_back({at, Beats("a"), ""});
    rows.push_back({at, Beats("b"), ""});
    rows.push_back({at, Attends("c", 1, Holds(0, 1)), "refuse c REDIALED"});
  }
  // The first one was said to stand at 10: 10 s, and two leases of 5 s.
  rows.push_back({30.0, Ticks(), "abort g1 HANG; form g2 a,b,c"});
  story.Tell(rows);
}

TEST(Hang, NobodyIsJudgedByWhatAMemberThatIsAwayHasSaid) {
  JobStory story("3");
  story.Tell(ThreeRun());
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

TEST(Hang, WhatIsTakenBackWasNothing) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {4.0, Stands("a", 1, kWaits), ""},
      {4.0, Stands("b", 1, kWaits), ""},
      {4.1, GoesOn("a", 1), ""},
      {4.1, GoesOn("b", 1), ""},
      {4.2, Stands("c", 1, {8, 8}), ""},
      {4.3, GoesOn("c", 1), ""},
      {8.0, Beats("a"), ""},
      {8.0, Beats("b"), ""},
      {8.0, Beats("c"), ""},
      {12.0, Beats("a"), ""},
      {12.0, Beats("b"), ""},
      {12.0, Beats("c"), ""},
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
      {0.5, Stands("a", 1, kWaits), ""},  // Late.
      {0.5, Stands("c", 1, kWaits), ""},
      {0.6, Stands("b", 2, kWaits), ""},
      {0.7, Stands("c", 2, {8, 8}), ""},
      {0.8, Stands("a", 2, kWaits), "abort g2 HANG c/0; form g3 a,b,c"},
  });
}

TEST(Hang, ARankThatThereIsNotIsAMistakeOfTheAgent) {
  JobStory story("3");
  story.Tell(ThreeRun());
  Seen odd = kWaits;
  odd.local_rank = 1;
  story.Tell({{1.0, Stands("b", 1, odd), "refuse b INVALID"}});
}

TEST(Hang, RanksThatAreDoneStandForNothing) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.1, Exits("a", 1, 0), ""},
      {1.2, Stands("a", 1, kWaits), ""},
      {1.3, Stands("b", 1, kWaits), ""},
      {1.4, Stands("c", 1, {8, 8}), "abort g1 HANG c/0; form g2 a,b,c"},
  });
}

TEST(Hang, ABoundaryWithADeadlineComesFirst) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b", 3), "notice 1 DRAIN b"},
      {1.1, Stands("a", 1, kWaits), ""},
      {1.1, Stands("b", 1, {8, 8}), ""},
      {1.1, Stands("c", 1, kWaits), ""},
      {5.0, Ticks(), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(Hang, ABoundaryThatNobodyComesToDoesNot) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Stands("a", 1, kWaits), ""},
      {1.1, Stands("b", 1, {8, 8}), ""},
      {1.1, Stands("c", 1, kWaits), "abort g1 HANG b/0; form g2 a,c"},
  });
}

TEST(Hang, ADaemonThatIsCutOffJudgesNobody) {
  JobStory story("3");
  story.Tell(ThreeRun());
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
      // And when they are back, what has become of it is heard first.
      {12.0, Beats("b"), ""},
      {12.0, Beats("c"), ""},
      {12.1, GoesOn("a", 1), ""},
      {16.0, Beats("a"), ""},
      {16.0, Beats("b"), ""},
      {16.0, Beats("c"), ""},
      {20.0, Beats("a"), ""},
      {20.0, Beats("b"), ""},
      {20.0, Beats("c"), ""},
      {22.5, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// Nor at once when it is no longer cut off, though all are said to stand: some
// of it was said before.
TEST(Hang, ADaemonThatWasCutOffHearsFirstWhatHasBecomeOfThem) {
  JobStory story("3");
  story.Tell(ThreeRun());
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

// And when its patience is over: those that it gives up had finished.
TEST(Hang, ADaemonWhosePatienceIsOverHearsFirstWhatHasBecomeOfThem) {
  JobStory story("1:3");
  story.Tell(ThreeRun());
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
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Stands("a", 1, kWaits), ""},
      {1.0, Stands("b", 1, {8, 8}), ""},
      {1.1, Breaks("b"), ""},
      {1.2, Attends("b", 1, Holds(0, 1)), ""},
      {1.3, Stands("c", 1, kWaits), ""},  // What b stood by is not known now.
      {1.4, Stands("b", 1, {8, 8}), "abort g1 HANG b/0; form g2 a,b,c"},
  });
}

TEST(Hang, ItCostsARestartAndTheLastOneIsTheEnd) {
  JobStory story("3", /*max_restarts=*/0);
  story.Tell(ThreeRun());
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
  JobStory story("1", /*max_restarts=*/1);
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {700.0, Stands("a", 1, {0, 0}), "abort g1 HANG a/0; form g2 a"},
      {700.1, Prepares("a", 2), "run g2"},
      {1400.0, Stands("a", 2, {0, 0}), "abort g2 HANG a/0"},
  });
}

TEST(Hang, ALostNodeOutranksIt) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
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

// What an agent says of a rank that has neither linked nor published a step.
const Seen kStarts{.linked = false, .step = 0};
// One that has linked, and waits in the first collective, or counts none.
const Seen kWaitsInFirst{.entered = 1, .left = 0, .step = 0};
const Seen kWaitsUncounted{.step = 0};

TEST(Start, WhoIsToBlame) {
  struct Row {
    const char* what;
    Seen a, b, c;
    std::string expect;  // Node; empty: nobody.
    std::string words;
  };
  const Row kRows[] = {
      {"nobody, where none has begun", kStarts, kStarts, kStarts, "",
       "all 3 ranks have neither linked nor published a step since their "
       "start, and nothing tells them apart: rank 0 on a (sleeps), rank 1 on b "
       "(sleeps), rank 2 on c (sleeps)"},
      {"the one that others wait for in their first collective", kWaitsInFirst,
       kStarts, kWaitsInFirst, "b",
       "it has neither linked nor published a step since its start (sleeps)"},
      {"the one that others wait for, who count no collectives",
       kWaitsUncounted, kWaitsUncounted, kStarts, "c",
       "it has neither linked nor published a step since its start (sleeps)"},
      {"nobody, where it may be either of two", kStarts, kWaitsInFirst, kStarts,
       "", "2 of 3 ranks have neither linked nor published a step"},
      {"a stopped one all the same",
       kStarts,
       {.stopped = true, .linked = false, .step = 0},
       kStarts,
       "b",
       "it is stopped"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    JobStory story("2:3");
    story.Tell(ThreeRun());
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
    EXPECT_NE(Describe(status.root_cause()).find(row.words), std::string::npos)
        << Describe(status.root_cause());
    EXPECT_EQ(status.restarts_charged(), 1u);
  }
}

// Ranks of half of the nodes make no start expected of the others, and are not
// to blame for waiting for them.
TEST(Start, WhoWaitsForANodeThatHasNotStartedIsNotToBlame) {
  for (const bool starts : {false, true}) {
    JobStory story("2");
    story.Tell({
        {0.0, Attends("a"), ""},
        {0.0, Attends("b"), "form g1 a,b"},
        {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
        {1.0, BeatsLinked("a"), ""},
        {1.0, starts ? BeatsLinked("b") : Beats("b"), ""},
        {2.0, Stands("a", 1, kWaitsInFirst), ""},
    });
    TellBeats(story, {"a", "b"}, 10);
    story.Tell({{12.0, Ticks(),
                 starts ? "abort g1 HANG a/0; form g2 a,b"
                        : "abort g1 HANG; form g2 a,b"}});
    const std::string words =
        Describe(story.job().Status(story.now()).root_cause());
    EXPECT_EQ(words.find("1 of 2 ranks are in collective 1 and wait for "
                         "others: rank 1 on b") == std::string::npos,
              starts)
        << words;
  }
}

TEST(Start, ManyThatHaveNotBegunAreNotAllNamed) {
  JobStory story("1");
  HelloOptions six;
  six.ranks = 6;
  story.Tell({{0.0, Attends("a", 1, six), "form g1 a"},
              {0.1, Prepares("a", 1), "run g1"}});
  Seen seen = kStarts;
  for (seen.local_rank = 0; seen.local_rank < 5; ++seen.local_rank) {
    story.Tell({{1.0, Stands("a", 1, seen), ""}});
  }
  story.Tell({{1.0, Stands("a", 1, seen), "abort g1 HANG; form g2 a"}});
  EXPECT_NE(story.job()
                .Status(story.now())
                .root_cause()
                .detail()
                .find("rank 3 on a (sleeps) and 2 more"),
            std::string::npos);
}

// One that is not elastic and has published nothing is never said to stand.
TEST(Start, NotAllAreWaitedFor) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({{2.0, Stands("b", 1, kStarts), ""}});
  TellBeats(story, {"a", "b", "c"}, 10);
  story.Tell({{11.9, Ticks(), ""},
              {12.0, Ticks(), "abort g1 HANG b/0; form g2 a,b,c"}});
}

TEST(Start, WhoLinksThenIsNotToBlame) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({{2.0, Stands("b", 1, kStarts), ""}, {3.0, GoesOn("b", 1), ""}});
  TellBeats(story, {"a", "b", "c"}, 16);
  story.Tell({{17.0, Ticks(), ""}});
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// Of some jobs one rank alone publishes steps. The others take part in them.
TEST(Start, RanksThatMakeStepsWaitForNobody) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Stands("b", 1, kStarts), ""},
      {2.0, Beats("a", 5), ""},
      {3.0, Stands("c", 1, kStarts), ""},
  });
  TellBeats(story, {"a", "b", "c"}, 16);
  story.Tell({
      {17.0, Ticks(), ""},
      {17.1, Stands("a", 1, {.linked = false, .step = 5}), ""},
      // The next world has made none yet.
      {17.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {17.3, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {17.4, Stands("a", 2, kStarts), ""},
      {17.5, Stands("b", 2, kStarts), ""},
      {17.6, Stands("c", 2, kStarts), "abort g2 HANG; form g3 a,b,c"},
  });
}

TEST(Start, ItCostsARestartAndTheLastOneIsTheEnd) {
  JobStory story("2", /*max_restarts=*/1);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      // As long as a plain command counts as one that works.
      {700.0, Stands("a", 1, kStarts), ""},
      {700.0, Stands("b", 1, kStarts), "abort g1 HANG; form g2 a,b"},
      {700.1, PreparesAll({"a", "b"}, 2), "run g2"},
      {700.2, Stands("a", 2, kStarts), ""},
      {700.2, Stands("b", 2, kStarts), "abort g2 HANG"},
      {700.3, Stops("a", 2), ""},
      {700.3, Stops("b", 2), "end 1 RESTART_BUDGET"},
  });
}

TEST(Hang, AnAgentWithAnotherLimitIsTold) {
  HelloOptions options;
  ToProto(absl::Seconds(3), options.settings.mutable_hang_timeout());
  JobStory story("2");
  story.Tell({{0.0, Attends("a", 1, options), "refuse a SETTINGS"}});
}

}  // namespace
}  // namespace rollcall
