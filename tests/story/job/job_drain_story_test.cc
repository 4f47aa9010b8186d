// Nodes that leave, and the notices that all ranks get.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// A rank ends, and its agent reports that it had asked the rank to stop.
Told EndsAsIfAsked(std::string node, uint64_t generation, int signal) {
  v1::AgentMessage message;
  v1::RankExited& exited = *message.mutable_rank_exited();
  exited.set_generation(generation);
  exited.set_signal(signal);
  exited.set_stopped_by_agent(true);
  return Says(std::move(node), message);
}

// --- Drains ------------------------------------------------------------------

TEST(Drain, AllComeToOneBoundaryAndTheNodeGoes) {
  JobStory story = ThreeRunning("2:3");
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
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Drains("b", 2), "notice 1 DRAIN b"},
      {2.0, Sees("a", 1), ""},
      // Agents have one more second to report which ranks they killed.
      {3.9, Ticks(), ""},
      {4.0, Ticks(), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(Drain, WhoIsKilledAtTheDeadlineIsNamed) {
  JobStory story = ThreeRunning("2:3");
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

// A process with the default action of SIGTERM dies by that before SIGKILL
// comes.
TEST(Drain, WhoIsKilledBySigtermIsNamedToo) {
  JobStory story = TwoRunning("1:2");
  v1::AgentMessage killed;
  killed.mutable_rank_exited()->set_generation(1);
  killed.mutable_rank_exited()->set_signal(SIGTERM);
  killed.mutable_rank_exited()->set_stopped_by_agent(true);
  killed.mutable_rank_exited()->set_killed(true);
  story.Tell({
      {1.0, Drains("b", 2), "notice 1 DRAIN b"},
      {2.0, Sees("a", 1), ""},
      {3.1, Says("b", killed), ""},
      {3.1, Sees("b", 1), "abort g1 LEAVING; form g2 a"},
  });
  EXPECT_TRUE(
      absl::StrContains(story.job().Status(story.now()).last_reform().reason(),
                        "; killed, since the time to save was over: rank 1 "
                        "on b (--notice-time"));
}

TEST(Drain, WhoHasNotComeToTheBoundaryIsNamed) {
  JobStory story = ThreeRunning("2:3");
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
  JobStory story = ThreeRunning("1:3");
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Sees("a", 1), ""},
      {1.2, Drains("c"), "notice 2 DRAIN b,c"},
      {1.3, Sees("a", 1), ""},  // The older notice was replaced.
      {1.3, Sees("a", 2), ""},
      {1.3, Sees("b", 2), ""},
      {1.3, Sees("c", 2), "abort g1 LEAVING; form g2 a"},
  });
}

TEST(Drain, BelowMinTheWholeJobEndsForRequeueAtTheBoundary) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Drains("c"), "notice 2 PREEMPT b,c"},
      {1.2, Sees("a", 2), ""},
      {1.2, Sees("b", 2), ""},
      {1.2, Sees("c", 2), "end 75 REQUEUE"},
  });
}

TEST(Drain, ASpareTakesTheSeat) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {0.5, Attends("d"), ""},
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.1, Sees("a", 1), ""},
      {1.1, Sees("b", 1), ""},
      {1.1, Sees("c", 1), "abort g1 LEAVING; form g2 a,d,c"},
  });
}

TEST(Drain, ASpareGoesAtOnce) {
  JobStory story = ThreeRunning("3");
  story.Tell({
      {0.5, Attends("d"), ""},
      {1.0, Drains("d"), "end 0 LEAVING"},
      {1.1, Breaks("d"), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Drain, ALossMeanwhileIsTheBoundary) {
  JobStory story = ThreeRunning("1:3");
  story.Tell({
      {1.0, Drains("b"), "notice 1 DRAIN b"},
      {1.0, Breaks("c"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a"},
      {2.1, Stops("b", 1), "end 0 LEAVING"},
  });
}

TEST(Drain, ItSurvivesTheDaemon) {
  JobStory before = ThreeRunning("2:3");
  before.Tell({{1.0, Drains("b"), "notice 1 DRAIN b"}});
  JobStory after = RestartOf(before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), "notice 2 DRAIN b"},
      {0.1, Attends("b", 1, Holds(0, 1)), "notice 2 DRAIN b"},
      {0.1, Attends("c", 1, Holds(0, 1)), "notice 2 DRAIN b"},
      {0.2, Sees("a", 2), ""},
      {0.2, Sees("b", 2), ""},
      {0.2, Sees("c", 2), "abort g1 LEAVING; form g2 a,c"},
  });
}

// A daemon that is restarted before the first world journals the start of its
// run again, which removes all entries before it.
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
  JobStory story = ThreeRunning("1:3");
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
  JobStory story = ThreeRunning("3");
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.1, Exits("a", 1, 7), "abort g1 RANK_EXIT"},
      {1.2, Drains("b"), "end 75 REQUEUE"},
  });
}

TEST(Drain, AStandingCrowdIsTakenOnByANewDaemon) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
      // The ranks of a and b stand at a boundary, for a notice that was never
      // journaled.
      {0.2, Sees("a", 7), "notice 8 GROW"},
      {0.3, Sees("a", 8), ""},
      {0.3, Sees("b", 8), ""},
      {0.3, Sees("c", 8), "abort g1 GROW; form g2 a,b,c"},
      // For a world that this daemon has committed itself, it knows each
      // notice.
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.5, Sees("a", 9, 2), ""},
      {0.5, Sees("a", 8, 2), ""},
      {0.5, EndsAsIfAsked("a", 2, 0), ""},
      {0.6, EndsAsIfAsked("b", 2, 15), "abort g2 RANK_SIGNAL; form g3 a,b,c"},
  });
}

TEST(Drain, WhoAsksAgainAndAgainMakesFewNotices) {
  JobStory story = ThreeRunning("3");
  int notices = 0;
  // Two hundred requests in a fifth of a second, each with an earlier deadline.
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
  // The earliest deadline counts, even if agents were not told of it.
  EXPECT_LT(story.job().NextDeadline(), story.now() + absl::Seconds(302));
  EXPECT_LE(story.job().Status(story.now()).notice().deadline().seconds(), 301);
}

// A node that completes a world and leaves before it runs ends only its
// proposal.
TEST(Leaving, BeforeTheFirstWorldOthersMayComeInItsPlace) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), "form g1 a,b"},
      {0.2, Leaves("b"), "end 0 LEAVING; abort g1 LEAVING"},
      {0.3, Attends("c"), "form g2 a,c"},
  });
}

// --- Notices -----------------------------------------------------------------

// A single member cannot end a world by reporting a notice that was never
// given.
TEST(Notice, OneThatWasNeverGivenChangesNothing) {
  JobStory story = ThreeRunning("2:3");
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

// The agents report that they stopped their ranks, but there was no notice.
TEST(Notice, ARankThatEndsUnaskedHasFailed) {
  JobStory story = ThreeRunning("2:3");
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
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Drains("c"), "notice 1 DRAIN c"},
      {1.1, EndsAsIfAsked("b", 1, 15), ""},
      {1.2, Sees("a", 1), ""},
      {1.2, Sees("b", 1), ""},
      {1.2, Sees("c", 1), "abort g1 LEAVING; form g2 a,b"},
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

TEST(Notice, AnAbsurdNumberIsNotBelieved) {
  JobStory story = RestartOf(ThreeRunning("2:3"));
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
  JobStory before = ThreeRunning("2:3");
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

}  // namespace
}  // namespace rollcall
