// When things change: notices and drains, newcomers, blame, silence, and runs
// that a daemon has no memory of.
#include <gtest/gtest.h>

#include <csignal>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job_story.h"

namespace rollcall {
namespace {

using Row = JobStory::Row;

v1::RankState Has(uint32_t local_rank, uint64_t step, bool whole = true) {
  v1::RankState state;
  state.set_local_rank(local_rank);
  state.set_completed_step(step);
  state.set_whole_state(whole);
  return state;
}

const v1::NodeStatus& RowOf(const v1::JobStatus& status,
                            const std::string& node) {
  for (const v1::NodeStatus& row : status.nodes()) {
    if (row.node() == node) return row;
  }
  ADD_FAILURE() << "no node " << node;
  return status.nodes(0);
}

// --- Notices and drains ------------------------------------------------------

TEST(Drain, AllComeToOneBoundaryAndTheNodeGoes) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.0, Drains("b"), ""},  // Asked again: nothing new.
      {1.1, Sees("a", 1), ""},
      {1.1, Sees("a", 1), ""},  // A retry.
      {1.2, Sees("c", 1), ""},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.notice().nodes(0), "b");
  EXPECT_EQ(RowOf(status, "b").state(), v1::NODE_STATE_DRAINING);
  story.Tell({
      {1.3, Sees("b", 1), "abort g1 LEAVING; form g2 a,c"},
      {1.4, Stops("b", 1), "end 0 LEAVING"},
      {1.5, Breaks("b"), ""},
      {1.6, PreparesAll({"a", "c"}, 2), "run g2"},
  });
  EXPECT_EQ(story.job().Status(story.now()).restarts_charged(), 0u);
}

TEST(Drain, TheDeadlineEndsTheWaiting) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b", 2), "notice 1 DRAIN b"},
      {2.0, Sees("a", 1), ""},
      {2.9, Ticks(), ""},
      {3.0, Ticks(), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(Drain, SeveralAtOnceMakeOneNoticeAndOneGeneration) {
  JobStory story("1:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Sees("a", 1), ""},
      {1.2, Drains("c"), "notice 2 DRAIN b,c"},
      {1.3, Sees("a", 1), ""},  // The older one is no answer any more.
      {1.3, Sees("a", 2), ""},
      {1.3, Sees("b", 2), ""},
      {1.3, Sees("c", 2), "abort g1 LEAVING; form g2 a"},
  });
}

TEST(Drain, BelowMinTheWholeJobEndsForRequeueAtTheBoundary) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Drains("c"), "notice 2 PREEMPT b,c"},
      {1.2, Sees("a", 2), ""},
      {1.2, Sees("b", 2), ""},
      {1.2, Sees("c", 2), "end 75 REQUEUE"},
  });
}

TEST(Drain, ASpareTakesTheSeat) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {0.5, Attends("d"), ""},
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Sees("a", 1), ""},
      {1.1, Sees("b", 1), ""},
      {1.1, Sees("c", 1), "abort g1 LEAVING; form g2 a,d,c"},
  });
}

TEST(Drain, ASpareGoesAtOnce) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {0.5, Attends("d"), ""},
      {1.0, Drains("d"), "end 0 LEAVING"},
      {1.1, Breaks("d"), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Drain, ALossMeanwhileIsTheBoundary) {
  JobStory story("1:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.0, Breaks("c"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a"},
      {2.1, Stops("b", 1), "end 0 LEAVING"},
  });
}

TEST(Drain, ItSurvivesTheDaemon) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  before.Tell({{1.0, Drains("b"), "notice 1 DRAIN b"}});
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), "notice 2 DRAIN b"},
      {0.1, Attends("b", 1, Holds(0, 1)), "notice 2 DRAIN b"},
      {0.1, Attends("c", 1, Holds(0, 1)), "notice 2 DRAIN b"},
      {0.2, Sees("a", 2), ""},
      {0.2, Sees("b", 2), ""},
      {0.2, Sees("c", 2), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(Drain, AThousandAtOnceMakeTwoNotices) {
  JobStory story("1:64");
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) names.push_back(absl::StrCat("n", i));
  for (const std::string& name : names) Attends(name)(story);
  PreparesAll(names, 1)(story);
  ASSERT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  std::string told;
  for (int i = 0; i < 40; ++i) {
    const std::string text = Leaves(names[i])(story);
    if (!text.empty()) told += text + "; ";
  }
  EXPECT_EQ(told, "notice 1 DRAIN n0; ");
  EXPECT_LE(story.job().NextDeadline(), story.now() + absl::Seconds(0.1));
  story.Tell({{0.05, Ticks(), ""}});
  story.Tell({{0.1, [](JobStory& s) { return Ticks()(s).substr(0, 30); },
               "notice 2 DRAIN n0,n1,n10,n11,n"}});
  EXPECT_EQ(story.job().Status(story.now()).notice().nodes_size(), 40);
  v1::Notice leaving;
  ASSERT_TRUE(leaving.ParseFromString(
      story.journal().at(Journal::Kind::kLeaving).body));
  EXPECT_EQ(leaving.nodes_size(), 40);
}

TEST(Drain, WhoseDoneIsAnsweredIsWrittenDown) {
  JobStory story("1:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.0, Drains("c"), ""},
  });
  v1::Notice leaving;
  ASSERT_TRUE(leaving.ParseFromString(
      story.journal().at(Journal::Kind::kLeaving).body));
  EXPECT_EQ(leaving.nodes_size(), 2);
  story.Tell({{1.1, Ticks(), "notice 2 DRAIN b,c"}});
}

TEST(Drain, OfASuspectBetweenTwoGenerationsEndsForRequeue) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.1, Exits("a", 1, 7), "abort g1 RANK_EXIT"},
      {1.2, Drains("b"), "end 75 REQUEUE"},
  });
}

TEST(Drain, AStandingCrowdIsTakenOnByANewDaemon) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
      // They stand by a notice that was never journaled.
      {0.2, Sees("a", 7), "notice 8 GROW"},
      {0.3, Sees("a", 8), ""},
      {0.3, Sees("b", 8), ""},
      {0.3, Sees("c", 8), "abort g1 GROW; form g2 a,b,c"},
  });
}

TEST(Stop, RanksComeToABoundaryFirstAndASecondAskingEndsAtOnce) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {1.0, StopIsAsked(130), "notice 1 PREEMPT"},
      {1.0, StopIsAsked(130), ""},
      {1.2, Sees("a", 1), ""},
      {1.3, StopIsAskedNow(130), "end 130 STOPPED"},
  });
}

TEST(Stop, NobodyIsWaitedForBeyondStopGrace) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, StopIsAsked(143), "notice 1 PREEMPT"},
      {4.0, Beats("a"), ""},
      {4.0, Beats("b"), ""},
      {4.0, Beats("c"), ""},
      {8.0, Beats("a"), ""},
      {8.0, Beats("b"), ""},
      {8.0, Beats("c"), ""},
      {12.0, Beats("a"), ""},
      {12.0, Beats("b"), ""},
      {12.0, Beats("c"), ""},
      {15.9, Ticks(), ""},
      {16.0, Ticks(), "end 143 STOPPED"},
  });
}

TEST(Stop, ADrainWithoutADeadlineDoesNotHoldItBack) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b"), "notice 1 PREEMPT b"},
      {2.0, StopIsAsked(3), "notice 2 PREEMPT b"},
      {2.5, StopIsAsked(3), ""},  // Nothing new.
      {16.0, PreparesAll({"a", "b", "c"}, 9), ""},
      {17.0, Ticks(), "end 3 STOPPED"},
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
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, StopIsAsked(143), "notice 1 PREEMPT"},
      {1.1, Breaks("b"), ""},
      {2.1, Ticks(), "abort g1 LOST_STREAM; end 143 STOPPED"},
  });
}

// --- Newcomers ---------------------------------------------------------------

TEST(Grow, ANewcomerIsTakenInAtTheNextBoundary) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.0, Attends("c"), ""},
              {1.0, Ticks(), "form g1 a,b,c"},
              {1.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
              {2.0, Attends("d"), ""},
              {2.9, Ticks(), ""},
              {3.0, Ticks(), "notice 1 GROW"},
              {3.1, Sees("a", 1), ""},
              {3.1, Sees("b", 1), ""},
              {3.1, Sees("c", 1), "abort g1 GROW; form g2 a,b,c,d"}});
}

TEST(Grow, AFullWorldDoesNot) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({{2.0, Attends("d"), ""}, {3.0, Ticks(), ""}});
  EXPECT_EQ(story.job().NextDeadline(),
            absl::UnixEpoch() + absl::Seconds(5) + absl::Milliseconds(100));
}

TEST(Grow, NeverMeansNever) {
  v1::JobSettings settings;
  settings.set_nodes_min(1);
  settings.set_nodes_max(3);
  settings.set_grow(v1::GROW_NEVER);
  JobStory story(Job("demo", "run1", settings, Limits(), absl::UnixEpoch()),
                 JobStory("1"));
  story.Tell({{0.0, Attends("a"), ""},
              {1.0, Ticks(), "form g1 a"},
              {1.1, Prepares("a", 1), "run g1"},
              {1.2, Attends("b"), ""},
              {3.0, Ticks(), ""}});
}

TEST(Grow, WhoComesAfterSomebodyIsDoneStaysASpare) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.0, Exits("a", 1, 0), ""},
              {2.1, Attends("c"), ""},
              {3.1, Ticks(), ""}});
}

TEST(Grow, AWorldThatIsDoneMeanwhileIsNotBegunAnew) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.0, Attends("c"), ""},
              {3.0, Ticks(), "notice 1 GROW"},
              {3.1, Exits("a", 1, 0), ""},
              {3.2, Exits("b", 1, 0), "end 0 FINISHED; end 0 FINISHED"}});
}

TEST(Grow, WhoCameWhileAWorldWasFormedIsNotForgotten) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, Attends("c"), ""},
              {1.2, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.2, Ticks(), "notice 1 GROW"}});
}

// --- State -------------------------------------------------------------------

TEST(State, TheHighestStepThenTheLowestSeatIsTheSource) {
  JobStory story("3");
  story.Tell({{0.0, Attends("a", 1, {.ranks = 2}), ""},
              {0.0, Attends("b", 1, {.ranks = 2}), ""},
              {0.0, Attends("c", 1, {.ranks = 2}), "form g1 a,b,c"},
              {0.1, PreparesWith("a", 1, {Has(0, 6), Has(1, 9, false)}), ""},
              {0.1, PreparesWith("b", 1, {Has(0, 6), Has(1, 7)}), ""},
              {0.1, PreparesWith("c", 1, {Has(0, 7)}), "run g1"}});
  v1::Seal seal;
  ASSERT_TRUE(
      seal.ParseFromString(story.journal().at(Journal::Kind::kCommitted).body));
  EXPECT_EQ(seal.state_source().rank(), 3u);
  EXPECT_EQ(seal.state_source().step(), 7u);
}

TEST(State, OneThatDiedSinceIsNotTheSource) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), "form g1 a,b"},
              {0.1, PreparesWith("a", 1, {Has(0, 9)}), ""},
              {0.2, PreparesWith("a", 1, {}), ""},
              {0.3, PreparesWith("b", 1, {Has(0, 8)}), "run g1"}});
  v1::Seal seal;
  ASSERT_TRUE(
      seal.ParseFromString(story.journal().at(Journal::Kind::kCommitted).body));
  EXPECT_EQ(seal.state_source().rank(), 1u);
  EXPECT_EQ(seal.state_source().step(), 8u);
}

TEST(State, NobodyHasAny) {
  JobStory story("1");
  story.Tell({{0.0, Attends("a"), "form g1 a"},
              {0.1, PreparesWith("a", 1, {Has(0, 3, false)}), "run g1"}});
  v1::Seal seal;
  ASSERT_TRUE(
      seal.ParseFromString(story.journal().at(Journal::Kind::kCommitted).body));
  EXPECT_FALSE(seal.has_state_source());
}

// --- Blame -------------------------------------------------------------------

TEST(Blame, TwiceInARowIsQuarantineAndASpareTakesTheSeat) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Attends("c"), ""},
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, PreparesAll({"a", "b"}, 2), "run g2"},
      {0.5, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,c"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(RowOf(status, "b").state(), v1::NODE_STATE_QUARANTINED);
  EXPECT_NE(RowOf(status, "b").reason(), "");
}

TEST(Blame, WithoutASpareTheBudgetDecides) {
  JobStory story("2", 2);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, PreparesAll({"a", "b"}, 2), "run g2"},
      {0.5, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,b"},
      {0.6, PreparesAll({"a", "b"}, 3), "run g3"},
      {0.7, Exits("b", 3, 3), "abort g3 RANK_EXIT"},
      {0.8, Stops("a", 3), ""},
      {0.8, Stops("b", 3), "end 3 RESTART_BUDGET"},
  });
}

TEST(Blame, ProgressForgives) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.4, Beats("a", 10), ""},
      {0.5, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,b,c"},
  });
}

TEST(Blame, OnTheNodeThatBeganIt) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  const std::string torn = "Connection reset by peer";
  story.Tell({
      {0.3, Exits("a", 1, 1, 0, 0, torn),
       "abort g1 RANK_COMMUNICATION; form g2 a,b,c"},
      {0.4, Exits("b", 1, 0, SIGKILL), ""},
      {0.5, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.6, Exits("a", 2, 1, 0, 0, torn),
       "abort g2 RANK_COMMUNICATION; form g3 a,b,c"},
      {0.7, Exits("b", 2, 0, SIGKILL), ""},
      {0.8, PreparesAll({"a", "b", "c"}, 3), "run g3"},
      // b is to blame for two, and goes at the next occasion.
      {0.9, Exits("c", 3, 1), "abort g3 RANK_EXIT; form g4 a,c"},
  });
}

TEST(Checks, AFailedNodeSaysHowItIsBeforeItRunsAgain) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), ""},
      {0.5, Reports("b", 1, v1::CheckFinding::SEVERITY_WARNING), "run g2"},
  });
}

TEST(Checks, WhatIsFatalIsQuarantine) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {0.5, Reports("b", 1, v1::CheckFinding::SEVERITY_FATAL),
       "abort g2 QUARANTINED; form g3 a,c"},
  });
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "b").state(),
            v1::NODE_STATE_QUARANTINED);
}

TEST(Checks, WhatIsFatalStaysSoWhoeverIsToBlame) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Exits("b", 1, 7), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {1.1, Reports("b", 1, v1::CheckFinding::SEVERITY_FATAL),
       "abort g2 QUARANTINED; form g3 a,c"},
      // It was another one that began it; its GPUs are missing all the same.
      {1.2, Exits("c", 1, 0, SIGKILL), "check"},
  });
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "b").state(),
            v1::NODE_STATE_QUARANTINED);
}

TEST(Checks, SilenceIsWaitedForTwoSeconds) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), ""},
      {2.2, Ticks(), ""},
      {2.3, Ticks(), "run g2"},
  });
}

JobStory LingeringFailure() {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(2);
  settings.set_max_restarts(0);
  settings.mutable_linger()->set_seconds(60);
  JobStory story(Job("demo", "run1", settings, Limits(), absl::UnixEpoch()),
                 JobStory("2"));
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      // Nobody is told to stop; the verdict comes with the lease.
      {0.3, Exits("a", 1, 7), ""},
      {3.0, Beats("a"), ""},
      {3.0, Beats("b"), ""},
      {5.3, Ticks(), "end 7 RANK_EXIT"},
  });
  return story;
}

TEST(Linger, TheSceneOfAFailureIsKept) {
  JobStory story = LingeringFailure();
  EXPECT_EQ(story.job().end()->linger().seconds(), 60);
  story.Tell({{70.0, Ticks(), ""}, {86.0, Ticks(), "forget"}});
}

TEST(Linger, WhereALostNodeBeganItItIsNoEnd) {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(3);
  settings.set_max_restarts(0);
  settings.mutable_linger()->set_seconds(60);
  JobStory story(Job("demo", "run1", settings, Limits(), absl::UnixEpoch()),
                 JobStory("2"));
  story.Tell(ThreeRun());
  story.Tell({
      {0.9, Breaks("c"), ""},
      {1.0, Exits("a", 1, 7), ""},
      {1.9, Ticks(), ""},
      {4.0, Beats("a"), ""},
      {4.0, Beats("b"), ""},
      {6.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
  });
}

TEST(Linger, WhoeverStopsTheJobHasSeenTheScene) {
  JobStory story = LingeringFailure();
  story.Tell({{6.0, StopIsAsked(130), "end 7 RANK_EXIT"}});
  EXPECT_TRUE(story.job().end()->now());
  story.Tell({{6.1, StopIsAsked(130), ""}});
}

// --- Silence -----------------------------------------------------------------

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
  // Two of four: half are back.
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  story.Tell({
      {31.5, Beats("c"), ""},
      {32.0, Beats("a"), ""},
      {34.0, Beats("a"), ""},
      {34.0, Beats("b"), ""},
      {34.0, Beats("c"), ""},
      // d has one more lease.
      {35.9, Ticks(), ""},
      {36.0, Ticks(), "refuse d LOST; abort g1 LOST_LEASE; form g2 a,b,c"},
  });
}

TEST(Silence, HalfOfTheWorldIsLost) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {3.0, Beats("b"), ""},
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
  HelloOptions held = Holds(0, 1);
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.1, Attends("a", 1, held), ""},
      {1.2, Breaks("a"), ""},
      {1.3, Attends("a", 1, held), ""},
      {1.4, Breaks("a"), ""},
      {2.3, Ticks(), ""},
      {2.4, Ticks(), "abort g1 LOST_STREAM; form g2 b,c,d"},
  });
}

TEST(Silence, ManyStreamsThatBreakAtOnceAreLeftToTheLeases) {
  JobStory story("2:4");
  story.Tell(FourRun());
  HelloOptions held = Holds(0, 1);
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.1, Breaks("b"), ""},
      {1.2, Breaks("c"), ""},
      {2.5, Ticks(), ""},  // Beyond reconnect_grace.
      {3.0, Attends("a", 1, held), ""},
      {3.0, Attends("b", 1, held), ""},
      {3.0, Attends("c", 1, held), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Notice, AnAbsurdNumberIsNotBelieved) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Sees("a", ~uint64_t{0}), ""},
      {1.1, Drains("b"), "notice 1 DRAIN b"},
      {1.2, Sees("a", ~uint64_t{0}), ""},
      {1.3, Drains("c"), "notice 2 PREEMPT b,c"},
  });
}

TEST(Notice, AJournalMayHoldAnything) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JournalState state = StateOf(before, true);
  v1::Notice& leaving = state.leaving.emplace();
  leaving.set_notice(~uint64_t{0});
  leaving.mutable_end()->set_reason("all\x1b[31m end");
  leaving.mutable_end()->mutable_root_cause()->set_detail("\x01");
  leaving.add_nodes("no name");
  for (size_t i = 0; i < Limits::nodes_max + Limits::lost_names_max; ++i) {
    leaving.add_nodes(absl::StrCat("n", i));
  }
  JobStory after(Job::Restore("demo", state, Limits(), absl::UnixEpoch()),
                 before);
  EXPECT_TRUE(absl::StartsWith(Attends("a", 1, Holds(0, 1))(after),
                               "notice 1 PREEMPT n0,n1,"));
  const v1::JobStatus status = after.job().Status(after.now());
  EXPECT_EQ(status.nodes_size(),
            static_cast<int>(Limits::nodes_max + Limits::lost_names_max));
  EXPECT_EQ(status.notice().end().reason(), "all?[31m end");
  EXPECT_FALSE(status.notice().end().has_root_cause());
}

// --- A run that this daemon has no memory of ---------------------------------

struct Remembered {
  JobStory before{"2:3"};
  HelloOptions held = Holds(0, 1);

  Remembered() {
    before.Tell(ThreeRun());
    const JournalState state = StateOf(before, true);
    held.held.set_world(state.proposal->world());
    held.held.set_seal(state.seal->SerializeAsString());
  }
  static JobStory Blank(bool may_adopt = true) {
    v1::JobSettings settings;
    settings.set_nodes_min(2);
    settings.set_nodes_max(3);
    Job job("demo", "run2", settings, Limits(), absl::UnixEpoch());
    if (may_adopt) job.AllowAdoption();
    return JobStory(std::move(job), JobStory("1"));
  }
};

TEST(Adoption, OverHalfOfTheMembersBringTheSameBytes) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("a", 1, run.held), ""},
      {0.1, Attends("a", 1, run.held), "refuse a REDIALED"},
      {0.2, Attends("b", 1, run.held), ""},
  });
  EXPECT_EQ(story.job().run(), "run1");
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(story.job().Status(story.now()).generation(), 1u);
  // The next daemon goes on above what the lost one can have proposed.
  EXPECT_EQ(story.journal().at(Journal::Kind::kCommitted).generation, 1001u);
  Job next = Job::Restore(
      "demo",
      [&] {
        JournalState state = StateOf(story, true);
        state.run = "run1";
        return state;
      }(),
      Limits(), story.now());
  EXPECT_EQ(next.Status(story.now()).generation(), 1u);
  story.Tell({
      {0.5, Attends("c", 1, run.held), ""},
      // Above all that the lost daemon can have proposed.
      {0.6, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g1002 a,b,c"},
  });
}

TEST(Adoption, WhoCameMeanwhileDialsAgainAndIsASpare) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions told;
  told.run = "run2";
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {0.2, Attends("y"), ""},
      {2.0, Ticks(), ""},  // Two attend, yet nothing is formed.
      {2.1, Attends("b", 1, run.held),
       "refuse x UNSPECIFIED; refuse y UNSPECIFIED"},
      {2.2, Attends("x", 1, told), ""},
      {2.2, Attends("c", 1, run.held), ""},
  });
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "x").state(),
            v1::NODE_STATE_SPARE);
}

TEST(Adoption, OtherBytesAreNoMajority) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions other = run.held;
  v1::Seal seal;
  ASSERT_TRUE(seal.ParseFromString(other.held.seal()));
  seal.set_master_port(1);
  other.held.set_seal(seal.SerializeAsString());
  story.Tell({
      {0.0, Attends("a", 1, run.held), ""},
      {0.1, Attends("b", 1, other), ""},
      {59.9, Ticks(), ""},
      {60.0, Ticks(), "refuse a OTHER_RUN; refuse b OTHER_RUN"},
      {60.1, Attends("c", 1, run.held), "refuse c OTHER_RUN"},
  });
}

TEST(Adoption, AJournalThatKnowsTheJobAdoptsNothing) {
  Remembered run;
  JobStory story = Remembered::Blank(/*may_adopt=*/false);
  story.Tell({{0.0, Attends("a", 1, run.held), "refuse a OTHER_RUN"}});
}

TEST(Adoption, AWorldOfAnotherJobOrNodeIsNoClaim) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions garbage = run.held;
  garbage.held.set_world("\x01\x02");
  story.Tell({
      {0.0, Attends("zz", 1, run.held), "refuse zz OTHER_RUN"},
      {0.1, Attends("a", 1, garbage), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, AJobThatHasEndedBecomesNoOther) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {0.2, StopIsAsked(3), "refuse a OTHER_RUN; end 3 STOPPED"},
      {0.3, Attends("a", 1, run.held), "refuse a OTHER_RUN"},
      {0.3, Attends("b", 1, run.held), "refuse b OTHER_RUN"},
  });
  EXPECT_EQ(story.job().run(), "run2");
}

TEST(Adoption, NothingIsDueWhileTheRestIsWaitedFor) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {4.0, Beats("x"), ""},
      {4.0, Beats("y"), ""},
      {4.1, Ticks(), ""},
  });
  EXPECT_GT(story.job().NextDeadline(), story.now());
}

TEST(Adoption, AFormedWorldAdoptsNoOther) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {1.0, Ticks(), "form g1 x,y"},
      {1.1, Attends("a", 1, run.held), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, AWorldOfFewerThanMinIsAnotherJobs) {
  JobStory before("1");
  before.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
  });
  HelloOptions held = Holds(0, 1);
  const JournalState state = StateOf(before, true);
  held.held.set_world(state.proposal->world());
  held.held.set_seal(state.seal->SerializeAsString());
  JobStory story = Remembered::Blank();
  story.Tell({{0.0, Attends("a", 1, held), "refuse a OTHER_RUN"}});
}

TEST(Adoption, ClaimsAreWaitedForWithoutSpinning) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {1.5, Ticks(), ""},
  });
  EXPECT_GT(story.job().NextDeadline(), story.now());
}

TEST(Adoption, WhoComesAndGoesIsNotWaitedForAnew) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {59.0, Breaks("a"), ""},
      {59.5, Attends("a", 1, run.held), ""},
      {60.1, Beats("x"), ""},
      {60.1, Ticks(), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, WhatTheLostDaemonMayHaveProposedOutlivesTheNextOne) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("a", 1, run.held), ""},
      {0.1, Attends("b", 1, run.held), ""},
  });
  JobStory after(
      Job::Restore("demo", StateOf(story, true), Limits(), absl::UnixEpoch()),
      story);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.2, Attends("c", 1, Holds(0, 1)), ""},
      {0.3, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g1002 a,b,c"},
  });
}

TEST(Adoption, AStopIsForThemToo) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.1, Attends("a", 1, run.held), ""},
      {1.0, StopIsAsked(3), "refuse a OTHER_RUN; forget"},
  });
}

}  // namespace
}  // namespace rollcall
