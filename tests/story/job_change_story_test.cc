// What all ranks are asked for: drains, stops, newcomers, and whose state goes
// on.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/printable.h"
#include "daemon/core/formation/world.h"
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

// And its agent says that it was asked to.
Told EndsAsIfAsked(std::string node, uint64_t generation, int signal) {
  v1::AgentMessage message;
  v1::RankExited& exited = *message.mutable_rank_exited();
  exited.set_generation(generation);
  exited.set_signal(signal);
  exited.set_stopped_by_agent(true);
  return Says(std::move(node), message);
}

// --- Where only node rank 0 runs the command ---------------------------------

// Of three nodes; b and c start nothing.
std::vector<JobStory::Row> OneRuns() {
  return {
      {0.0, Attends("a", 1, {.once = true}), ""},
      {0.0, Attends("b", 1, {.once = true}), ""},
      {0.0, Attends("c", 1, {.once = true}), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
  };
}

TEST(Once, TheEndWaitsForWhoRunsTheCommand) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "b").state(),
            v1::NODE_STATE_RUNNING);
  story.Tell({{0.5, Exits("a", 1, 0), "end 0 FINISHED"}});
  // Other local ranks of that node are not started either.
  JobStory wide("2");
  wide.Tell({{0.0, Attends("a", 1, {.ranks = 2, .once = true}), ""},
             {0.0, Attends("b", 1, {.ranks = 2, .once = true}), "form g1 a,b"},
             {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
             {0.5, Exits("a", 1, 0), "end 0 FINISHED"}});
  // A node without the flag starts its ranks in any world.
  JobStory mixed("2");
  mixed.Tell({{0.0, Attends("a", 1, {.once = true}), ""},
              {0.0, Attends("b"), "form g1 a,b"},
              {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {0.5, Exits("a", 1, 0), ""},
              {0.6, Exits("b", 1, 0), "end 0 FINISHED"}});
}

// The world says who runs nothing: a daemon that is started again need not hear
// it of them.
TEST(Once, AfterARestartOfTheDaemonTheEndWaitsForNoOther) {
  JobStory before("2:3");
  before.Tell(OneRuns());
  JobStory story(Job::Restore("j", StateOf(before, /*committed=*/true),
                              Limits{}, absl::UnixEpoch()),
                 before);
  HelloOptions back = Holds(0, 1);
  back.once = true;
  story.Tell({{0.1, Attends("a", 1, back), ""},
              {0.2, Exits("a", 1, 0), "end 0 FINISHED"}});
}

TEST(Once, WhoRunsNothingIsToldWhoIsWaitedFor) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.TakeWaitingTold();
  TellBeats(story, {"a", "b", "c"}, 60);
  story.Tell({{60.5, Ticks(), ""}});
  EXPECT_EQ(story.TakeWaitingTold(),
            std::vector<std::string>(
                {"b,c: no rank runs on this node; others still run"}));
}

TEST(Once, ANodeThatRunsNothingIsLostLikeAnyOther) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.Tell({{0.5, Breaks("b"), ""},
              {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"}});
}

TEST(Once, ANodeThatRunsNothingIsDrainedLikeAnyOther) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.Tell({{1.0, Drains("b"), "notice 1 DRAIN b"},
              {1.1, Sees("a", 1), "abort g1 LEAVING; form g2 a,c"},
              {1.2, Stops("b", 1), "end 0 LEAVING"}});
}

TEST(Once, NewcomersAreTakenIn) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.Tell({{0.5, Breaks("c"), ""},
              {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
              {2.1, PreparesAll({"a", "b"}, 2), "run g2"},
              {2.3, Attends("c", 2, {.once = true}), "notice 1 GROW"},
              {2.4, Sees("a", 1, 2), "abort g2 GROW; form g3 a,b,c"}});
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
      // A second for what agents say of those that they kill then.
      {3.9, Ticks(), ""},
      {4.0, Ticks(), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(Drain, WhoIsKilledAtTheDeadlineIsNamed) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b", 2), "notice 1 DRAIN b"},
      {2.0, EndsAsIfAsked("a", 1, SIGTERM), ""},
      {2.0, Sees("a", 1), ""},
      {3.1, EndsAsIfAsked("b", 1, SIGKILL), ""},
      {3.1, Sees("b", 1), ""},
      {3.2, EndsAsIfAsked("c", 1, SIGKILL), ""},
      {3.2, Sees("c", 1), "abort g1 LEAVING; form g2 a,c"},
  });
  EXPECT_TRUE(absl::StrContains(
      story.job().Status(story.now()).last_reform().reason(),
      "; killed, since the time to save was over: rank 1 on b, rank 2 on c "
      "(--notice-time gives them more)"));
}

TEST(Drain, WhoHasNotComeToTheBoundaryIsNamed) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("b", 2), "notice 1 DRAIN b"},
      {2.0, Sees("a", 1), ""},
      {4.0, Ticks(), "abort g1 LEAVING; form g2 a,c"},
  });
  EXPECT_TRUE(absl::StrContains(
      story.job().Status(story.now()).last_reform().reason(),
      "; at no step boundary when the time to save was over: b, c "
      "(--notice-time gives them more)"));
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

// A daemon that starts before the first world begins its run anew, which leaves
// nothing of what was journaled.
TEST(Drain, BeforeTheFirstWorldItSurvivesEachRestart) {
  JobStory before("2:3");
  before.Tell({{0.0, Attends("a"), ""}, {1.0, Drains("a"), "end 0 LEAVING"}});
  JournalState state;
  state.run = "run1";
  ASSERT_TRUE(state.settings.ParseFromString(
      before.journal().at(Journal::Kind::kRunStarted).body));
  ASSERT_TRUE(state.leaving.emplace().ParseFromString(
      before.journal().at(Journal::Kind::kLeaving).body));
  for (int restart = 0; restart < 2; ++restart) {
    Job job = Job::Restore("demo", state, Limits(), absl::UnixEpoch());
    for (const Action& action : job.Start()) {
      const auto* entry = std::get_if<Journal>(&action);
      if (entry == nullptr) continue;
      if (entry->kind == Journal::Kind::kRunStarted) state.leaving.reset();
      if (entry->kind != Journal::Kind::kLeaving) continue;
      ASSERT_TRUE(state.leaving.emplace().ParseFromString(entry->body));
    }
    ASSERT_TRUE(state.leaving.has_value()) << "restart " << restart;
    ASSERT_EQ(state.leaving->nodes_size(), 1);
    EXPECT_EQ(state.leaving->nodes(0), "a");
  }
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
      // Of the world that it has committed itself, it knows each notice.
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.5, Sees("a", 9, 2), ""},
      {0.5, Sees("a", 8, 2), ""},
      {0.5, EndsAsIfAsked("a", 2, 0), ""},
      {0.6, EndsAsIfAsked("b", 2, 15), "abort g2 RANK_SIGNAL; form g3 a,b,c"},
  });
}

// A member alone ends no world by a notice that nobody gave.
TEST(Notice, OneThatWasNeverGivenChangesNothing) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Sees("a", 7), ""},
      {1.0, Sees("a", 0), ""},
      {1.1, Drains("b"), "notice 1 DRAIN b"},
      {1.2, Sees("a", 9), ""},
      {1.4, Ticks(), ""},
      {1.5, Sees("a", 1), ""},
      {1.5, Sees("b", 1), ""},
      {1.5, Sees("c", 1), "abort g1 LEAVING; form g2 a,c"},
  });
}

// Its agent says that it was asked to, and nothing had asked it.
TEST(Notice, ARankThatEndsUnaskedHasFailed) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, EndsAsIfAsked("a", 1, 0), ""},
      {1.1, EndsAsIfAsked("b", 1, 15), "abort g1 RANK_SIGNAL; form g2 a,b,c"},
      {1.2, PreparesAll({"a", "b", "c"}, 2), "run g2"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.restarts_charged(), 1u);
  EXPECT_EQ(status.last_reform().node(), "b");
}

TEST(Notice, ARankThatEndsForOneHasNotFailed) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Drains("c"), "notice 1 DRAIN c"},
      {1.1, EndsAsIfAsked("b", 1, 15), ""},
      {1.2, Sees("a", 1), ""},
      {1.2, Sees("b", 1), ""},
      {1.2, Sees("c", 1), "abort g1 LEAVING; form g2 a,b"},
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

TEST(Stop, NobodyIsWaitedForBeyondTheNoticeTime) {
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
      {16.9, Ticks(), ""},
      {17.0, Ticks(), "end 143 STOPPED"},
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
  JobStory story("2:5");
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

TEST(Grow, ForTheLastSeatNobodyIsWaitedFor) {
  JobStory story("2:3");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.0, Attends("c"), "notice 1 GROW"},
              {2.1, Sees("a", 1), ""},
              {2.1, Sees("b", 1), "abort g1 GROW; form g2 a,b,c"}});
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

TEST(Grow, StepsAreTakenWhereTheNodeOfRankZeroIsForgotten) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {1.2, Exits("a", 1, 0), ""},
              {1.3, Breaks("a"), ""},
              {2.4, Ticks(), ""}});
  // Names of lost nodes are kept, but not without end.
  for (size_t i = 0; i <= Limits::lost_names_max; ++i) {
    const std::string name = absl::StrCat("d", i);
    story.Tell(
        {{2.5, Attends(name), ""},
         {2.5, Evicts({name}), absl::StrCat("refuse ", name, " EVICTED")}});
  }
  EXPECT_FALSE(story.job().Knows("a"));
  story.Tell({{2.6, Beats("b", 5), ""}});
  EXPECT_EQ(story.job().Status(story.now()).step(), 5u);
}

// Why the newcomer d has no seat.
std::string WhyNoSeat(JobStory& story, double at) {
  story.TakeWaitingTold();
  story.Tell({{at, Attends("d"), ""}});
  std::string told;
  for (const std::string& one : story.TakeWaitingTold()) {
    if (one.starts_with("d: ")) told = one;
  }
  return told;
}

TEST(Grow, ANewcomerIsToldWhyItHasNoSeat) {
  JobStory full("2:3");
  full.Tell(ThreeRun());
  EXPECT_EQ(WhyNoSeat(full, 0.5), "d: ");  // All are taken.

  JobStory back(
      Job::Restore("demo", StateOf(full, true), Limits(), absl::UnixEpoch()),
      full);
  EXPECT_EQ(WhyNoSeat(back, 0.5),
            "d: the daemon was restarted, and waits for a, b, c of the "
            "running world, for 1m at most");

  JobStory done("2:4");
  done.Tell({{0.0, Attends("a"), ""},
             {0.0, Attends("b"), ""},
             {1.0, Ticks(), "form g1 a,b"},
             {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
             {2.0, Exits("a", 1, 0), ""}});
  EXPECT_EQ(WhyNoSeat(done, 2.1),
            "d: ranks have exited 0, so the world takes in no more nodes");
}

TEST(Grow, WorkThatIsDoneIsNotBegunAgainWhereItsNodeHasLeft) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.0, Attends("c"), ""},
              {1.0, Ticks(), "form g1 a,b,c"},
              {1.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
              {2.0, Exits("a", 1, 0), ""},
              {2.1, Breaks("a"), ""},
              {3.1, Ticks(), ""},
              {3.2, Attends("d"), ""},
              {4.5, Ticks(), ""}});
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
              {3.2, Exits("b", 1, 0), "end 0 FINISHED"}});
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

// --- Logs --------------------------------------------------------------------

// What an agent says forges no field of a log line.
TEST(Logs, WhatANodeSaysStandsInOnePairOfQuotes) {
  JobStory story("1");
  const std::string forged = "x\" level=error event=end code=\"0";
  v1::AgentMessage message;
  v1::Prepared& prepared = *message.mutable_prepared();
  prepared.set_generation(1);
  prepared.set_master_port(20000);
  prepared.set_nccl_absent(forged);
  prepared.add_warnings(forged);
  story.Tell(
      {{0.0, Attends("a"), "form g1 a"}, {0.1, Says("a", message), "run g1"}});
  EXPECT_TRUE(
      absl::StrContains(story.logs(), absl::StrCat("text=", Quoted(forged))));
  EXPECT_TRUE(absl::StrContains(story.logs(),
                                absl::StrCat("nccl_absent=", Quoted(forged))));
  EXPECT_FALSE(absl::StrContains(story.logs(), "x\" level=error"));
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

v1::Seal SealOf(const JobStory& story) {
  v1::Seal seal;
  EXPECT_TRUE(
      seal.ParseFromString(story.journal().at(Journal::Kind::kCommitted).body));
  return seal;
}

// Generation 1 runs with these, and one more loses its stream: the others are
// asked for generation 2.
std::vector<Row> RunsAndReforms(const std::vector<std::string>& nodes) {
  std::vector<Row> rows;
  for (const std::string& node : nodes)
    rows.push_back({0.0, Attends(node), ""});
  rows.push_back({0.0, Attends("z"),
                  absl::StrCat("form g1 ", absl::StrJoin(nodes, ","), ",z")});
  std::vector<std::string> all = nodes;
  all.push_back("z");
  rows.push_back({0.1, PreparesAll(all, 1), "run g1"});
  rows.push_back({0.2, Breaks("z"), ""});
  rows.push_back({1.3, Ticks(),
                  absl::StrCat("abort g1 LOST_STREAM; form g2 ",
                               absl::StrJoin(nodes, ","))});
  return rows;
}

// One node's word does not throw away what all others have done.
TEST(State, OneThatStandsFarAboveTheMedianIsNoSourceAndIsNamed) {
  JobStory story("1:4");
  story.Tell(RunsAndReforms({"a", "b", "c"}));
  story.Tell({{2.0, PreparesWith("a", 2, {Has(0, 100)}), ""},
              {2.0, PreparesWith("b", 2, {Has(0, ~uint64_t{0})}), ""},
              {2.0, PreparesWith("c", 2, {Has(0, 101)}), "run g2"}});
  EXPECT_EQ(SealOf(story).state_source().rank(), 2u);
  EXPECT_EQ(SealOf(story).state_source().step(), 101u);
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=warning node=b"))
      << story.logs();
  EXPECT_FALSE(absl::StrContains(story.logs(), "event=warning node=c"));
}

TEST(State, ANewcomerHasNoStateThatGoesBeforeThatOfAMember) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {1.2, Attends("c"), ""},
              {2.2, Ticks(), "notice 1 GROW"},
              {2.3, Sees("a", 1), ""},
              {2.4, Sees("b", 1), "abort g1 GROW; form g2 a,b,c"},
              {2.5, PreparesWith("a", 2, {Has(0, 7)}), ""},
              {2.5, PreparesWith("b", 2, {Has(0, 7)}), ""},
              {2.5, PreparesWith("c", 2, {Has(0, 9)}), "run g2"}});
  EXPECT_EQ(SealOf(story).state_source().rank(), 0u);
  EXPECT_EQ(SealOf(story).state_source().step(), 7u);
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=warning node=c"));
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

// A worker's token may be a whole world of nodes with a command of their own.
TEST(Grow, ASpareIsToldThatItsCommandNeverRan) {
  const HelloOptions theirs{.command = 't'};
  const HelloOptions ours{.command = 'o'};
  JobStory story("2");
  story.Tell({{0.0, Attends("x", 1, theirs), ""},
              {0.0, Attends("y", 1, theirs), "form g1 x,y"},
              {0.1, PreparesAll({"x", "y"}, 1), "run g1"},
              {0.2, Attends("a", 1, ours), ""},
              {0.2, Attends("z", 1, theirs), ""},
              {0.2, Attends("u"), ""},
              {0.3, Exits("x", 1, 0), ""},
              {0.4, Exits("y", 1, 0), "end 0 FINISHED; end 69 OTHER_COMMAND"},
              {0.5, Attends("b", 1, ours), "end 69 OTHER_COMMAND"},
              {0.5, Attends("c"), "end 0 FINISHED"}});
  // The launcher's own node has run what the job was made for, or no two nodes
  // had one command.
  HelloOptions launcher = theirs;
  launcher.launcher = true;
  for (const HelloOptions& first : {launcher, HelloOptions{.command = 'x'}}) {
    JobStory other("2");
    other.Tell({{0.0, Attends("x", 1, first), ""},
                {0.0, Attends("y", 1, theirs), "form g1 x,y"},
                {0.1, PreparesAll({"x", "y"}, 1), "run g1"},
                {0.2, Attends("a", 1, ours), ""},
                {0.3, Exits("x", 1, 0), ""},
                {0.4, Exits("y", 1, 0), "end 0 FINISHED"}});
  }
}

// What it was is in the commit: its members may be others by the end, or be
// known by their rows alone.
TEST(Grow, TheCommandIsThatOfTheWorldThatRan) {
  const HelloOptions theirs{.command = 't'};
  const HelloOptions ours{.command = 'o'};
  JobStory story("2");
  story.Tell({{0.0, Attends("x", 1, theirs), ""},
              {0.0, Attends("y", 1, theirs), "form g1 x,y"},
              {0.1, PreparesAll({"x", "y"}, 1), "run g1"},
              {0.2, Exits("x", 1, 0), ""},
              {0.3, Ticks(), ""},
              {0.4, Breaks("x"), ""}});
  JobStory after(
      Job::Restore("demo", StateOf(story, true), Limits(), absl::UnixEpoch()),
      story);
  // Another agent has taken the name of one that had finished and left.
  story.Tell({{1.5, Ticks(), ""},
              {1.6, Attends("x", 2, ours), ""},
              {1.7, Exits("y", 1, 0), "end 0 FINISHED; end 69 OTHER_COMMAND"}});
  // The daemon was started again, and one member has not come back.
  HelloOptions back = Holds(0, 1);
  back.command = 't';
  after.Tell({{0.5, Attends("y", 1, back), ""},
              {0.6, Attends("a", 1, ours), ""},
              {0.7, Exits("y", 1, 0), "end 0 FINISHED; end 69 OTHER_COMMAND"}});
}

// --- Addresses ---------------------------------------------------------------

TEST(Addresses, ANodeTakesNoOtherNodesAddressAway) {
  JobStory story("2");
  story.Tell(
      {{0.0, Attends("a"), ""},
       {0.0, Attends("b", 1, {.claims_address_of = "a"}), "form g1 a,b"}});
  const v1::World world = story.ProposedWorld();
  ASSERT_EQ(world.members_size(), 2);
  EXPECT_EQ(world.members(0).address(), AddressOf("a"));
  EXPECT_EQ(world.members(1).address(), AddressOf("b"));
  ASSERT_EQ(world.members(1).addresses_size(), 1);
  EXPECT_EQ(world.members(1).addresses(0), AddressOf("b"));
}

TEST(Addresses, ANodeWithoutOneEndsNoJobThatHasEnoughOthers) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.1, Attends("c", 1, {.no_address = true}), ""},
              {1.2, Ticks(), "form g1 a,b"}});
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=spare node=c"))
      << story.logs();
}

TEST(Addresses, ANodeWithoutOneEndsNoJobThatHasTooFew) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.1, Attends("b", 1, {.no_address = true}), ""},
              {0.2, Attends("c"), "form g1 a,c"}});
  // Nobody else comes: the end says why b was not enough.
  JobStory late("2");
  late.Tell({{0.0, Attends("a"), ""},
             {0.1, Attends("b", 1, {.no_address = true}), ""}});
  for (double at = 1.5; at < 599; at += 1.5) {
    late.Tell({{at, Beats("a"), ""}, {at, Beats("b"), ""}});
  }
  late.Tell({{600, Ticks(), "end 69 JOIN_TIMEOUT"}});
  EXPECT_TRUE(absl::StrContains(late.job().end()->reason(),
                                "no address that peers could use on b"))
      << late.job().end()->reason();
}

// The launcher's own agent always has a seat, so nothing can be formed.
TEST(Addresses, AJobWhoseLauncherHasNoneEnds) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.1, Attends("l", 1, {.launcher = true, .no_address = true}),
               "end 69 NO_ADDRESS"}});
}

// Whoever completes a world can take that back, and no more.
TEST(Leaving, BeforeTheFirstWorldOthersMayComeInItsPlace) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), "form g1 a,b"},
      {0.2, Leaves("b"), "end 0 LEAVING; abort g1 LEAVING"},
      {0.3, Attends("c"), "form g2 a,c"},
  });
}

TEST(Notice, ANodeThatLeavesSetsNoFarDeadline) {
  JobStory story("1:2");
  story.Tell({{0.0, Attends("a"), ""}, {0.0, Attends("b"), "form g1 a,b"}});
  story.Tell({{0.1, PreparesAll({"a", "b"}, 1), "run g1"}});
  v1::AgentMessage message;
  message.mutable_leaving()->mutable_deadline()->set_seconds(366 * 86400);
  Says("b", message)(story);
  const v1::JobStatus status = story.job().Status(story.now());
  ASSERT_TRUE(status.has_notice());
  EXPECT_EQ(status.notice().deadline().seconds(), 600);
}

// --- Numbers -----------------------------------------------------------------

TEST(Notice, AnAbsurdNumberIsNotBelieved) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory story(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  story.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
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

TEST(Drain, WhoAsksAgainAndAgainMakesFewNotices) {
  JobStory story("3");
  story.Tell(ThreeRun());
  int notices = 0;
  // Each sooner than the last one, two hundred in a fifth of a second.
  for (int i = 0; i < 200; ++i) {
    v1::AgentMessage message;
    message.mutable_leaving()->mutable_deadline()->set_seconds(500 - i);
    story.Tell({{1 + i * 0.001,
                 [&](JobStory& told) {
                   const std::string answer = Says("b", message)(told);
                   notices += !answer.empty();
                   return std::string();
                 },
                 ""}});
  }
  EXPECT_LE(notices, 3);
  // The soonest counts, told or not.
  EXPECT_LT(story.job().NextDeadline(), story.now() + absl::Seconds(302));
  EXPECT_LE(story.job().Status(story.now()).notice().deadline().seconds(), 301);
}

}  // namespace
}  // namespace rollcall
