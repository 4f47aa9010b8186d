// Ranks that make no progress from their start: which one is to blame.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/failures/root_cause.h"
#include "tests/story/job/hangs/stalled_rank.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// A rank that has neither linked nor published a step.
const Seen kStarts{.linked = false, .step = 0};
// Ranks that have linked: the first waits in its first collective, the second
// counts no collectives.
const Seen kWaitsInFirst{.entered = 1, .left = 0, .step = 0};
const Seen kWaitsUncounted{.step = 0};

TEST(Start, WhoIsToBlame) {
  struct Row {
    const char* what;
    Seen a, b, c;
    std::string expect;  // The blamed node; empty: none.
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
    EXPECT_NE(Describe(status.root_cause()).find(row.words), std::string::npos)
        << Describe(status.root_cause());
    EXPECT_EQ(status.restarts_charged(), 1u);
  }
}

// The agent was declared lost and attends again with a new incarnation. Its
// heartbeats still say that its ranks had linked.
TEST(Start, AnAgentThatAttendsAgainKeepsItsTimeToStart) {
  for (const bool beats : {false, true}) {
    JobStory story = OneRunning("1");
    story.Tell({
        {1.0, BeatsLinked("a", 0.5), ""},
        {2.0, Breaks("a"), ""},
        {3.1, Ticks(), ""},
        {3.2, Attends("a", 2, NextOf(1)), "form g2 a"},
        {3.3, beats ? BeatsLinked("a", 0.5) : Beats("a"), ""},
        {3.4, Prepares("a", 2), "run g2"},
    });
    EXPECT_EQ(story.start_timeout_s(),
              absl::ToDoubleSeconds(Limits().start_timeout) + 0.5)
        << beats;
  }
}

// If ranks of only half of the nodes have started, the others are not expected
// to start. The ranks that wait for them are not to blame.
TEST(Start, WhoWaitsForANodeThatHasNotStartedIsNotToBlame) {
  for (const bool starts : {false, true}) {
    JobStory story = TwoRunning("2");
    story.Tell({
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

// A rank that is not elastic and has published nothing is never reported as
// stalled.
TEST(Start, NotAllAreWaitedFor) {
  JobStory story = ThreeRunning("3");
  story.Tell({{2.0, Stands("b", 1, kStarts), ""}});
  TellBeats(story, {"a", "b", "c"}, 10);
  story.Tell({{11.9, Ticks(), ""},
              {12.0, Ticks(), "abort g1 HANG b/0; form g2 a,b,c"}});
}

TEST(Start, WhoLinksThenIsNotToBlame) {
  JobStory story = ThreeRunning("3");
  story.Tell({{2.0, Stands("b", 1, kStarts), ""}, {3.0, GoesOn("b", 1), ""}});
  TellBeats(story, {"a", "b", "c"}, 16);
  story.Tell({{17.0, Ticks(), ""}});
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// In some jobs only one rank publishes steps, and the others take part in them.
TEST(Start, RanksThatMakeStepsWaitForNobody) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Stands("b", 1, kStarts), ""},
      {2.0, Beats("a", 5), ""},
      {3.0, Stands("c", 1, kStarts), ""},
  });
  TellBeats(story, {"a", "b", "c"}, 16);
  story.Tell({
      {17.0, Ticks(), ""},
      {17.1, Stands("a", 1, {.linked = false, .step = 5}), ""},
      // The next world has made no step yet.
      {17.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {17.3, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {17.4, Stands("a", 2, kStarts), ""},
      {17.5, Stands("b", 2, kStarts), ""},
      {17.6, Stands("c", 2, kStarts), "abort g2 HANG; form g3 a,b,c"},
  });
}

TEST(Start, ItCostsARestartAndTheLastOneIsTheEnd) {
  JobStory story = TwoRunning("2", /*max_restarts=*/1);
  story.Tell({
      // This is later than the ten minutes that count as progress of a plain
      // command.
      {700.0, Stands("a", 1, kStarts), ""},
      {700.0, Stands("b", 1, kStarts), "abort g1 HANG; form g2 a,b"},
      {700.1, PreparesAll({"a", "b"}, 2), "run g2"},
      {700.2, Stands("a", 2, kStarts), ""},
      {700.2, Stands("b", 2, kStarts), "abort g2 HANG"},
      {700.3, Stops("a", 2), ""},
      {700.3, Stops("b", 2), "end 1 RESTART_BUDGET"},
  });
}

}  // namespace
}  // namespace rollcall
