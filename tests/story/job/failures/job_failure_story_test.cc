// Lost nodes and failed ranks.
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// --- Loss --------------------------------------------------------------------

TEST(Loss, ABrokenStreamIsLostAfterTheGrace) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.9, Ticks(), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, PreparesAll({"a", "c"}, 2), "run g2"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.last_reform().node(), "b");
  EXPECT_EQ(status.last_reform().code(), v1::REASON_CODE_LOST_STREAM);
  EXPECT_EQ(status.nodes(1).state(), v1::NODE_STATE_LOST);
  EXPECT_EQ(status.restarts_charged(), 0u);
}

TEST(Loss, AStreamThatIsBackInTimeCostsNothing) {
  JobStory story = ThreeRunning("2:3");
  HelloOptions resumed;
  resumed.run = "run1";
  resumed.resume_state.set_running_generation(1);
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.5, Attends("b", 1, resumed), ""},
      {2.5, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Loss, SilenceIsLostWhenTheLeaseEnds) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {4.0, BeatsAll({"a", "c"}), ""},
      {5.05, Ticks(), ""},
      {5.1, Ticks(), "refuse b LOST; abort g1 LOST_LEASE; form g2 a,c"},
      {5.2, Attends("b", 1), "refuse b LOST"},  // A new incarnation is needed.
      {5.3, Attends("b", 2), ""},               // It is a spare now.
  });
}

TEST(Loss, ALateLoopBlamesNobody) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {60.0, Ticks(55), ""},  // Only 5 s of these count.
      {60.0, BeatsAll({"a", "b", "c"}), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Loss, BelowMinTheRestGathersAndTheLostAreNamed) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Breaks("b"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM"},
      {3.0, Ticks(), ""},
      {300.0, Ticks(297), ""},
      {602.0, Ticks(302), "end 69 JOIN_TIMEOUT"},
  });
  EXPECT_NE(story.job().end()->reason().find("missing: b"), std::string::npos)
      << story.job().end()->reason();
}

TEST(Loss, SeatsAreStickyAndASpareTakesTheEmptyOne) {
  JobStory story = ThreeRunning("2:3");
  HelloOptions resumed;
  resumed.run = "run1";
  story.Tell({
      {0.2, Attends("d"), ""},  // A spare: the world is full.
      {1.0, Breaks("a"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 d,b,c"},
      {2.1, PreparesAll({"d", "b", "c"}, 2), "run g2"},
      {3.0, Attends("a", 2), ""},  // It has no claim to its old seat.
      {3.0, Beats("b"), ""},
      {3.1, Breaks("c"), ""},
      {4.1, Ticks(), "abort g2 LOST_STREAM; form g3 d,b,a"},
  });
}

// --- Failure -----------------------------------------------------------------

TEST(Failure, ARankThatFailsIsRestartedUntilTheBudgetIsEmpty) {
  JobStory story = OneRunning("1", /*max_restarts=*/1);
  story.Tell({
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.3, Stops("a", 1), ""},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Exits("a", 2, 4), "abort g2 RANK_EXIT"},
      {0.6, Stops("a", 2), "end 4 RESTART_BUDGET"},
      {0.7, SeesEnd("a"), "forget"},
  });
  EXPECT_EQ(story.job().end()->causes_size(), 2);
  EXPECT_EQ(story.job().end()->root_cause().node(), "a");
  EXPECT_EQ(story.job().end()->root_cause().value(), 4);
}

TEST(Failure, WithoutABudgetItsOwnCodeIsTheEnd) {
  JobStory story = TwoRunning("2", 0);
  story.Tell({
      {0.2, Exits("b", 1, 0, SIGSEGV), "abort g1 RANK_SIGNAL"},
      {0.3, Stops("b", 1), ""},
      {0.4, Stops("a", 1), "end 139 RANK_SIGNAL"},
  });
}

TEST(Failure, TheHeavierCauseWithinALeaseTakesTheBlame) {
  JobStory story = TwoRunning("2", 0);
  story.Tell({
      {0.2, Exits("a", 1, 1, 0, 0, "Connection reset by peer"),
       "abort g1 RANK_COMMUNICATION"},
      {0.3, Stops("a", 1), ""},
      {0.4, Exits("b", 1, 0, SIGKILL), ""},
      {0.5, Stops("b", 1), "end 137 RANK_SIGNAL"},
  });
  EXPECT_EQ(story.job().end()->root_cause().node(), "b");
}

TEST(Failure, ALostNodeOutranksAFailureAndCostsNothing) {
  JobStory story = TwoRunning("1:2", 0);
  story.Tell({
      {0.2, Exits("a", 1, 1, 0, 0, "ncclRemoteError"),
       "abort g1 RANK_COMMUNICATION"},
      {0.3, Stops("a", 1), ""},
      {0.4, Breaks("b"), ""},
      {1.4, Ticks(), "form g2 a"},
  });
  EXPECT_EQ(story.job().Status(story.now()).root_cause().node(), "b");
}

TEST(Failure, TheReformIsBlamedOnTheLostNodeAndNotOnWhoNoticed) {
  JobStory story = TwoRunning("1:2", 3);
  story.Tell({
      {0.2, Breaks("b"), ""},
      // The collective of a fails long before the grace of b is over.
      {0.3, Exits("a", 1, 1, 0, 0, "Connection closed by peer"),
       "abort g1 RANK_COMMUNICATION"},
      {1.2, Ticks(), "form g2 a"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.last_reform().node(), "b");
  EXPECT_EQ(status.last_reform().code(), v1::REASON_CODE_LOST_STREAM);
  EXPECT_EQ(status.root_cause().node(), "b");
  EXPECT_EQ(status.restarts_charged(), 0u);
}

TEST(Failure, AChargeIsGivenBackWhenANodeWasLost) {
  JobStory story = TwoRunning("1:2", 3);
  story.Tell({
      {0.2, Exits("a", 1, 1), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, Breaks("b"), ""},
      {1.4, Ticks(), "abort g2 LOST_STREAM; form g3 a"},
  });
  EXPECT_EQ(story.job().Status(story.now()).restarts_charged(), 0u);
}

TEST(Failure, ProgressRefillsTheBudget) {
  JobStory story = OneRunning("1", 1);
  story.Tell({
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Beats("a", 7), ""},
      {0.6, Exits("a", 2, 3), "abort g2 RANK_EXIT; form g3 a"},
      {0.7, Prepares("a", 3), "run g3"},
      {0.8, Beats("a", 7), ""},  // The same step is no progress.
      {0.9, Exits("a", 3, 3), "abort g3 RANK_EXIT"},
  });
}

TEST(Failure, ASparesStepsRefillNoBudget) {
  JobStory story = OneRunning("1", 1);
  story.Tell({
      {0.1, Attends("s"), ""},
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Beats("s", 7), ""},
      {0.6, Exits("a", 2, 3), "abort g2 RANK_EXIT"},
  });
}

TEST(Failure, ACommandThatCannotRunIsNotTriedAgain) {
  JobStory story = OneRunning("1", 3);
  story.Tell({
      {0.2, Exits("a", 1, 127), "abort g1 NOT_STARTED"},
      {0.3, Stops("a", 1), "end 127 NOT_STARTED"},
  });
}

TEST(Failure, WhatWouldFailAgainIsNotTriedAgain) {
  JobStory story("2", 3);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), "form g1 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.3, ExitsForGood("b", 1, 30), "abort g1 RANK_EXIT"},
      {0.4, ExitsForGood("a", 1, 30), ""},
      {0.5, Stops("a", 1), ""},
      {0.6, Stops("b", 1), "end 30 RANK_EXIT"},
  });
}

TEST(Failure, OldGenerationsSpeakInVain) {
  JobStory story = OneRunning("1", 3);
  story.Tell({
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Exits("a", 1, 3), ""},
      {0.6, Refuses("a", 1), ""},
      {0.7, Prepares("a", 1), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

}  // namespace
}  // namespace rollcall
