// Which node is to blame for a failure, what a node's checks find, and a job
// that lingers after a failure.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// --- Blame -------------------------------------------------------------------

TEST(Blame, TwiceInARowIsQuarantineAndASpareTakesTheSeat) {
  JobStory story = TwoRunning("2");
  story.Tell({
      {0.2, Attends("c"), ""},
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, PreparesAll({"a", "b"}, 2), "run g2"},
      {0.5, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,c"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(RowOf(status, "b").state(), v1::NODE_STATE_QUARANTINED);
  EXPECT_NE(RowOf(status, "b").reason(), "");
}

TEST(Blame, WhoseParentStartsItAgainIsNeitherBlamedNorCharged) {
  JobStory story = TwoRunning("2");
  story.Tell({{0.2, Attends("c"), ""}});
  for (uint64_t g = 1; g <= 6; ++g) {
    const double at = 0.3 + 0.1 * static_cast<double>(g);
    story.Tell({
        {at, ExitsAndComesAgain("b", g, 1),
         absl::StrCat("abort g", g, " RANK_EXIT; form g", g + 1, " a,b")},
        // Other ranks of the same world fail because of it.
        {at + 0.01, ExitsAndComesAgain("a", g, 1), ""},
        {at + 0.02, Exits("a", g, 1), ""},
        {at + 0.03, PreparesAll({"a", "b"}, g + 1),
         absl::StrCat("run g", g + 1)},
    });
  }
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.last_reform().reason(),
            "rank 1 on b exited with code 1; its parent starts it again");
  EXPECT_FALSE(status.has_root_cause());
}

// b is to blame twice, and c has its seat.
JobStory SpareInTheSeatOfB() {
  JobStory story = TwoRunning("2");
  story.Tell({
      {0.2, Attends("c"), ""},
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, PreparesAll({"a", "b"}, 2), "run g2"},
      {0.5, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,c"},
      {0.6, PreparesAll({"a", "c"}, 3), "run g3"},
  });
  return story;
}

TEST(Blame, WhoIsNeededIsPardoned) {
  JobStory story = SpareInTheSeatOfB();
  story.Tell({
      {4.0, BeatsAll({"a", "b"}), ""},
      {5.7, Ticks(), "refuse c LOST; abort g3 LOST_LEASE; form g4 a,b"},
      {5.8, PreparesAll({"a", "b"}, 4), "run g4"},
  });
}

TEST(Blame, WhoseChecksFailedIsNeverPardoned) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {0.5, Reports("b", 1, v1::CheckFinding::SEVERITY_FATAL),
       "abort g2 QUARANTINED; form g3 a,c"},
      {0.6, PreparesAll({"a", "c"}, 3), "run g3"},
      {4.0, BeatsAll({"a", "b"}), ""},
      {5.7, Ticks(), "refuse c LOST; abort g3 LOST_LEASE"},
  });
}

TEST(Blame, WithoutASpareTheBudgetDecides) {
  JobStory story = TwoRunning("2", 2);
  story.Tell({
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
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.4, Beats("a", 10), ""},
      {0.5, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,b,c"},
  });
}

// A world of one rank that fails after eleven minutes, and again after eleven
// more.
JobStory FailsLate(const Told& beats, const std::string& expect) {
  JobStory story("1", 1);
  story.Tell(
      {{0.0, Attends("a"), "form g1 a"}, {0.1, Prepares("a", 1), "run g1"}});
  std::vector<JobStory::Row> rows;
  for (double at = 2; at < 660; at += 2) rows.push_back({at, beats, ""});
  story.Tell(rows);
  story.Tell({{661.0, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
              {661.1, Prepares("a", 2), "run g2"}});
  rows.clear();
  for (double at = 662; at < 1330; at += 2) rows.push_back({at, beats, ""});
  story.Tell(rows);
  story.Tell({{1331.0, Exits("a", 2, 3), expect}});
  return story;
}

TEST(Blame, TenMinutesAreProgressOfAPlainCommandAlone) {
  FailsLate(Beats("a"), "abort g2 RANK_EXIT; form g3 a");
  // Ranks that link count steps, and these have counted none.
  FailsLate(BeatsLinked("a"), "abort g2 RANK_EXIT")
      .Tell({{1331.1, Stops("a", 2), "end 3 RESTART_BUDGET"}});
}

TEST(Blame, OneNodesWordIsNotTheProgressOfAll) {
  JobStory story = ThreeRunning("3", 1);
  story.Tell({
      // An absurdly high step, below which every later step would be.
      {0.3, Beats("c", uint64_t{1} << 53), ""},
      {0.4, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {0.5, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.6, Beats("a", 10), ""},
      {0.6, Beats("b", 10), ""},
      {0.7, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,b,c"},
      {0.8, PreparesAll({"a", "b", "c"}, 3), "run g3"},
      // The others have made no progress since.
      {0.9, Beats("c", (uint64_t{1} << 53) + 1), ""},
      {1.0, Exits("b", 3, 3), "abort g3 RANK_EXIT"},
  });
}

TEST(Blame, ANodeThatFailsSpeaksForNoProgress) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {0.3, Attends("d"), ""},
      {0.4, Beats("b", 10), ""},
      {0.5, Exits("b", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {0.6, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      {0.7, Beats("b", 20), ""},
      {0.8, Exits("b", 2, 3), "abort g2 RANK_EXIT; form g3 a,d,c"},
  });
}

TEST(Blame, AnEvictionSavesNoJobThatHasFailed) {
  JobStory story = ThreeRunning("2:3", 0);
  story.Tell({
      {0.3, Exits("b", 1, 7), "abort g1 RANK_EXIT"},
      {0.4, Evicts({"c"}), "refuse c EVICTED"},
      {0.5, Stops("a", 1), ""},
      {0.5, Stops("b", 1), "end 7 RANK_EXIT"},
  });
  // A member whose stream was broken already counts as lost, also if it is
  // evicted then.
  JobStory lost = ThreeRunning("2:3", 0);
  lost.Tell({
      {0.2, Breaks("c"), ""},
      {0.3, Exits("b", 1, 7), "abort g1 RANK_EXIT"},
      {0.4, Evicts({"c"}), ""},
      {0.5, Stops("a", 1), ""},
      {0.5, Stops("b", 1), "form g2 a,b"},
  });
}

TEST(Blame, OnTheNodeThatBeganIt) {
  JobStory story = ThreeRunning("2:3");
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
      // b is to blame for two failures, and loses its seat with the next
      // generation.
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

// A fatal finding is sent to the node again, however often the node dials.
TEST(Checks, WhatWasFatalIsSaidAgain) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {0.3, Exits("b", 1, 3), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {0.5, Reports("b", 1, v1::CheckFinding::SEVERITY_FATAL),
       "abort g2 QUARANTINED; form g3 a,c"},
  });
  const std::string reason =
      RowOf(story.job().Status(story.now()), "b").reason();
  EXPECT_NE(reason, "");
  story.Tell({{0.6, Breaks("b"), ""}, {0.7, Attends("b", 1), ""}});
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "b").reason(), reason);
}

TEST(Checks, WhatIsFatalStaysSoWhoeverIsToBlame) {
  JobStory story("2:3");
  story.AnswersChecksItself();
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Exits("b", 1, 7), "abort g1 RANK_EXIT; check; form g2 a,b,c"},
      {1.1, Reports("b", 1, v1::CheckFinding::SEVERITY_FATAL),
       "abort g2 QUARANTINED; form g3 a,c"},
      // c began the failure, but the GPUs of b are missing all the same.
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

// A job with --linger 60s and --max-restarts 0.
JobStory Lingering(uint32_t nodes_max) {
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(nodes_max);
  settings.set_max_restarts(0);
  settings.mutable_linger()->set_seconds(60);
  return JobStory(Job("demo", "run1", settings, Limits(), absl::UnixEpoch()),
                  JobStory("2"));
}

JobStory LingeringFailure() {
  JobStory story = Lingering(2);
  story.Tell(TwoRun());
  story.Tell({
      // No node is told to stop. The job is judged when the lease ends.
      {0.3, Exits("a", 1, 7), ""},
      {3.0, BeatsAll({"a", "b"}), ""},
      {5.3, Ticks(), "end 7 RANK_EXIT"},
  });
  return story;
}

TEST(Linger, TheSceneOfAFailureIsKept) {
  JobStory story = LingeringFailure();
  EXPECT_EQ(story.job().end()->linger().seconds(), 60);
  const auto status = [&] { return story.job().Status(story.now()); };
  EXPECT_EQ(status().state(), v1::JOB_STATE_LINGERING);
  EXPECT_EQ(status().world_size(), 2u);
  EXPECT_EQ(status().lingers().seconds(), 60);
  EXPECT_EQ(RowOf(status(), "b").state(), v1::NODE_STATE_RUNNING);
  // No rank of a is left.
  story.Tell({{15.3, Breaks("a"), ""}});
  EXPECT_EQ(RowOf(status(), "a").state(), v1::NODE_STATE_FINISHED);
  EXPECT_EQ(status().lingers().seconds(), 50);
  story.Tell({{70.0, Ticks(), ""}, {86.0, Ticks(), "forget"}});
}

TEST(Linger, WhoComesBackBeforeTheEndIsNotToldToStop) {
  JobStory story = Lingering(2);
  story.Tell(TwoRun());
  story.Tell({
      {0.3, Exits("a", 1, 7), ""},
      {0.4, Breaks("b"), ""},
      {0.5, Attends("b", 1, Holds(1, 1)), ""},
  });
}

TEST(Linger, WhoHearsOfItLateHasWhatIsLeft) {
  JobStory story = LingeringFailure();
  story.Tell({{10.0, Breaks("b"), ""}});
  Attend late;
  late.session = story.NewSession("b");
  late.hello = HelloOf("b", 1, Holds(1, 1));
  late.observed_address = AddressOf("b");
  int64_t left_s = -1;
  for (const Action& action :
       story.job().Step(late, absl::UnixEpoch() + absl::Seconds(55))) {
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr || !send->message.has_end()) continue;
    left_s = send->message.end().linger().seconds();
  }
  EXPECT_EQ(left_s, 10);  // The job ended at 5.3.
}

TEST(Linger, WhereALostNodeBeganItItIsNoEnd) {
  JobStory story = Lingering(3);
  story.Tell(ThreeRun());
  story.Tell({
      {0.9, Breaks("c"), ""},
      {1.0, Exits("a", 1, 7), ""},
      {1.9, Ticks(), ""},
      {4.0, BeatsAll({"a", "b"}), ""},
      {6.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
  });
}

TEST(Linger, WhoeverStopsTheJobHasSeenTheScene) {
  JobStory story = LingeringFailure();
  story.Tell({{6.0, StopIsAsked(130), "end 7 RANK_EXIT"}});
  // The ranks get their grace, unless the end is urgent.
  EXPECT_FALSE(story.job().end()->now());
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_FAILED);
  story.Tell({{6.1, StopIsAsked(130), ""},
              {6.2, StopIsAskedNow(130), "end 7 RANK_EXIT"},
              {6.3, StopIsAskedNow(130), ""}});
  EXPECT_TRUE(story.job().end()->now());
}

}  // namespace
}  // namespace rollcall
