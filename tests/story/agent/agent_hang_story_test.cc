// The watchdog of an agent: which ranks it watches, when it looks at them, and
// what it reports.
#include <gtest/gtest.h>

#include "daemon/base/durations.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

using Row = AgentStory::Row;

// From Hello to a running world, with a hang timeout of three seconds, or of
// none.
std::vector<Row> Watched(absl::Duration timeout = absl::Seconds(3)) {
  v1::JobSettings settings;
  ToProto(timeout, settings.mutable_hang_timeout());
  return RunningWith(settings);
}

std::vector<Row> Linked() {
  std::vector<Row> rows = Watched();
  rows.push_back({0.4, RankAttended{1, 0, true}, ""});
  rows.push_back({0.4, RankAttended{1, 1, true}, ""});
  return rows;
}

TEST(AgentHang, ItLooksAsksTellsAndKillsWhoIsToBlame) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {1.5, RankProgressed{1, 1, 0}, ""},
      {1.6, RankProgressed{1, 1, 1}, ""},
      {2.0, AgentTick{}, "beat 1"},
      {3.0, AgentTick{}, "beat 1"},
      {3.5, RankProgressed{1, 1, 0}, ""},  // The same step is no progress.
      {4.0, AgentTick{}, "beat 1"},
      {4.5, AgentTick{}, "LOOK 0"},
      {4.6, AgentTick{}, "LOOK 1"},
      {4.7, RankIsHere{1, 0, 8, 7}, ""},
      {4.8, RankLooked{{1, 0}, false, "sleeps"}, "stalled 0@1 8/7 answers"},
      {4.9, RankLooked{{1, 1}, true, "stopped"}, ""},
      {5.0, AgentTick{}, "beat 1"},
      {6.0, AgentTick{}, "beat 1"},
      {6.6, AgentTick{}, "stalled 1@1 silent stopped"},
      {6.7, RankIsHere{1, 1, 8, 8}, ""},  // Too late.
      {6.8, AbortFor("b", 1), "ABORT 1; STOP 1 0"},
      {6.9, RankWaits{1, 0, 7, true}, ""},
      {7.0, Gone(1, {1}), "stopped 1"},
  });
}

TEST(AgentHang, AnotherNodesRankIsNotItsOwn) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({{0.5, AbortFor("a", 0), "ABORT 1"}});
}

TEST(AgentHang, APlainRankIsKilledAtOnceToo) {
  AgentStory story;
  story.Tell(Watched());
  story.Tell({{0.5, AbortFor("b", 0), "ABORT 1; STOP 0,1 15s; STOP 0 0"}});
}

TEST(AgentHang, WhoGoesOnTakesItBack) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {2.5, RankProgressed{1, 1, 1}, ""},
      {3.0, AgentTick{}, "beat 1"},
      {3.4, AgentTick{}, "LOOK 0"},
      {3.5, RankIsHere{1, 0, 3, 3}, ""},
      {3.5, RankLooked{{1, 0}, false, ""}, "stalled 0@0 3/3 answers"},
      {3.6, RankProgressed{1, 2, 0}, "goes-on 0"},
      // The answer to the earlier look.
      {3.7, RankIsHere{1, 0, 3, 3}, ""},
      {3.7, RankLooked{{1, 0}, false, ""}, ""},
      {4.0, AgentTick{}, "beat 2"},
      {5.0, AgentTick{}, "beat 2"},
      {5.5, AgentTick{}, "LOOK 1"},
      {5.6, RankProgressed{1, 3, 1}, ""},  // No stall was reported yet.
  });
}

TEST(AgentHang, APlainRankIsWatchedFromItsFirstProgress) {
  AgentStory story;
  story.Tell(Watched());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
      {4.5, RankProgressed{1, 1, 1}, ""},
      {5.0, AgentTick{}, "beat 1"},
      {6.0, AgentTick{}, "beat 1"},
      // Any change of the progress file counts.
      {6.5, RankProgressed{1, 1, 1}, ""},
      {7.0, AgentTick{}, "beat 1"},
      {8.0, AgentTick{}, "beat 1"},
      {9.0, AgentTick{}, "beat 1"},
      {9.5, AgentTick{}, "LOOK 1"},
      {9.6, RankLooked{{1, 1}, false, ""}, "stalled 1@1"},
  });
}

TEST(AgentHang, NobodyIsWatchedWithoutALimit) {
  AgentStory story;
  std::vector<Row> rows = Watched(absl::ZeroDuration());
  rows.push_back({0.4, RankAttended{1, 0, true}, ""});
  rows.push_back({0.5, RankProgressed{1, 1, 0}, ""});
  // More seconds than the default timeout of ten minutes has.
  for (int s = 1; s < 700; ++s) {
    rows.push_back({1.0 * s, AgentTick{}, "beat 1"});
  }
  story.Tell(rows);
}

TEST(AgentHang, AtABoundaryAndAtItsEndNobodyIsExpectedToGoOn) {
  AgentStory story;
  story.Tell(Linked());
  FromDaemon notice;
  notice.message.mutable_notice()->set_notice(1);
  notice.message.mutable_notice()->set_kind(v1::NOTICE_KIND_DRAIN);
  notice.message.mutable_notice()->set_generation(1);
  story.Tell({
      {0.5, notice, "NOTICE 1 15s"},
      {0.6, RankAtBoundary{1, 0}, ""},
      {0.7, RankEnded{1, 1, 0}, "exited 1=0/0; notice-seen 1 of 1"},
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
      {5.0, AgentTick{}, "beat 0"},
  });
}

TEST(AgentHang, ANewWorldBeginsWithItsWholeTime) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {1.1, AbortOf(1), "ABORT 1"},
      {1.2, RankWaits{1, 0, 7, true}, ""},
      {1.3, RankWaits{1, 1, 7, true}, "stopped 1"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
      {4.1, Proposal(2), "PREPARE 2"},
      {4.2, PreparationDone{2}, "prepared 2 0@7 1@7"},
      {4.3, CommitOf(2), "START 2 port 23456 fresh  waiting 0,1"},
      {5.0, AgentTick{}, "beat 0"},
      {6.0, AgentTick{}, "beat 0"},
      {7.0, AgentTick{}, "beat 0"},
      {7.3, AgentTick{}, "LOOK 0; LOOK 1"},
      // This answer belongs to the world before.
      {7.4, RankIsHere{1, 0, 8, 8}, ""},
      {7.5, RankIsHere{2, 0, 2, 1}, ""},
      {7.5, RankLooked{{1, 0}, false, ""}, "stalled 0@0 2/1 answers"},
  });
}

TEST(AgentHang, ItIsToldAgainToADaemonThatWasAway) {
  AgentStory story;
  story.Tell(Linked());
  FromDaemon welcome = Welcome();
  story.Tell({
      {0.5, RankProgressed{1, 4, 0}, ""},
      {1.0, AgentTick{}, "beat 4"},
      {2.0, AgentTick{}, "beat 4"},
      {3.0, AgentTick{}, "beat 4"},
      {3.4, AgentTick{}, "LOOK 1"},
      {3.5, AgentTick{}, "LOOK 0"},
      {3.6, RankIsHere{1, 0, 9, 8}, ""},
      {3.6, RankLooked{{1, 0}, false, ""}, "stalled 0@4 9/8 answers"},
      {3.7, Down(), ""},
      {3.725, AgentTick{}, "dial"},
      {3.8, StreamUp{}, "hello i11"},
      // The other rank has no first step. It may have waited for the daemon, so
      // its stall is not reported again.
      {3.9, welcome, "stalled 0@4 9/8 answers"},
      {4.9, AgentTick{}, "beat 4"},
      {5.9, AgentTick{}, "beat 4"},
      {6.9, AgentTick{}, "beat 4; LOOK 1"},
  });
}

// A rank hangs before its first step, and each stream lasts for 8 s.
TEST(AgentHang, StreamsThatBreakOftenDoNotHideIt) {
  AgentStory story;
  story.Tell(Watched(absl::Minutes(2)));
  story.Tell({{0.4, RankAttended{1, 0, true}, ""}});
  int looked_at = 0;  // In tenths of a second.
  for (int at = 5; at < 10000 && looked_at == 0; ++at) {
    AgentEvent event = AgentTick{};
    if (at % 100 == 0) event = Down();
    if (at % 100 == 15) event = StreamUp{};
    if (at % 100 == 20) event = Welcome();
    for (const AgentAction& action : story.agent().Step(
             event, absl::UnixEpoch() + at * absl::Milliseconds(100))) {
      if (std::holds_alternative<LookAtRank>(action)) looked_at = at;
    }
  }
  // At 12 s the clock starts again, as keepalive_time and keepalive_timeout are
  // longer than what has passed. From then on it stands for two of each ten
  // seconds.
  EXPECT_GE(looked_at, 10 * (12 + 120 * 10 / 8) - 30);
  EXPECT_LE(looked_at, 10 * (12 + 120 * 10 / 8) + 30);
}

TEST(AgentHang, ALoopThatWasHeldUpGivesItsRanksThatTime) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {32.0, AgentTick{}, "beat 0"},  // 30 s late.
      {33.0, AgentTick{}, "beat 0"},
      {33.3, AgentTick{}, ""},
      {33.4, AgentTick{}, "LOOK 0; LOOK 1"},
  });
}

TEST(AgentHang, ALoopThatWasHeldUpGivesThatTimeOnce) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      // The loop is 30 s late, and handles all events that waited.
      {32.0, RankProgressed{1, 1, 0}, ""},
      {32.0, RankProgressed{1, 1, 1}, ""},
      {32.0, RankProgressed{1, 2, 0}, ""},
      {32.0, AgentTick{}, "beat 2"},
      {33.0, AgentTick{}, "beat 2"},
      {34.0, AgentTick{}, "beat 2"},
      {35.0, AgentTick{}, "beat 2; LOOK 0; LOOK 1"},
  });
}

TEST(AgentHang, WhoHasLeftItsAgentMayTakeItsTime) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {1.5, RankProgressed{1, 9, 0}, ""},
      {1.6, RankProgressed{1, 9, 1}, ""},
      // Rank 0 has finished training and writes its results.
      {1.7, RankUnlinked{0}, ""},
      {2.0, AgentTick{}, "beat 9"},
      {3.0, AgentTick{}, "beat 9"},
      {4.0, AgentTick{}, "beat 9"},
      {4.6, AgentTick{}, "LOOK 1"},
      {4.7, RankIsHere{1, 1, 8, 8}, ""},
      {4.7, RankLooked{{1, 1}, false, ""}, "stalled 1@9 8/8 answers"},
      {4.8, RankUnlinked{1}, "goes-on 1"},
  });
}

TEST(AgentHang, AProgramMayCountAsItLikes) {
  AgentStory story;
  story.Tell(Linked());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {3.4, AgentTick{}, "LOOK 0; LOOK 1"},
      {3.5, RankLooked{{1, 0}, false, "a\nb"}, ""},
      {3.5, RankIsHere{1, 0, 3, 9}, "stalled 0@0 3/3 answers"},
      {3.5, RankLooked{{1, 1}, false, ""}, ""},
      {3.6, RankIsHere{1, 1, std::nullopt, std::nullopt},
       "stalled 1@0 answers"},
  });
}

}  // namespace
}  // namespace rollcall
