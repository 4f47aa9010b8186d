// The start watchdog of an agent: which ranks it expects to link or to publish
// a step, by when, and what it reports.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "daemon/base/durations.h"
#include "tests/story/agent/agent_story.h"

namespace rollcall {
namespace {

using Row = AgentStory::Row;

// From Hello to a running world, with a start timeout of three seconds, or of
// none.
std::vector<Row> Started(absl::Duration timeout = absl::Seconds(3)) {
  v1::JobSettings settings;
  ToProto(timeout, settings.mutable_start_timeout());
  return RunningWith(settings);
}

std::vector<Row> StartedUnwatched() {
  v1::JobSettings settings;
  ToProto(absl::ZeroDuration(), settings.mutable_hang_timeout());
  return RunningWith(settings);
}

TEST(AgentStart, APlainCommandIsNeverExpectedToLink) {
  AgentStory story;
  std::vector<Row> rows = Started();
  for (int s = 1; s < 60; ++s) rows.push_back({1.0 * s, AgentTick{}, "beat 0"});
  story.Tell(rows);
  EXPECT_FALSE(story.ranks_link());
}

TEST(AgentStart, WhereRanksLinkItLooksAndTells) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.8, RanksLink(), ""},
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {2.5, RanksLink(), ""},  // A repetition keeps the time.
      {3.0, AgentTick{}, "beat 0"},
      {3.8, AgentTick{}, "LOOK 0; LOOK 1"},
      {3.9, RankLooked{{1, 0}, false, "sleeps"}, "stalled 0@0"},
      {3.9, RankLooked{{1, 1}, true, "stopped"}, "stalled 1@0 stopped"},
      {4.0, AgentTick{}, "beat 0"},
      // The blamed rank is killed at once.
      {4.1, AbortFor("b", 1), "ABORT 1; STOP 0,1 15s; STOP 1 0"},
  });
  // The daemon told this node; no rank of the node itself has linked.
  EXPECT_FALSE(story.ranks_link());
}

TEST(AgentStart, TheTimeBeginsWithTheRank) {
  AgentStory story;
  std::vector<Row> rows = Started();
  rows.insert(rows.begin() + 2, {0.05, RanksLink(), ""});
  story.Tell(rows);
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {3.29, AgentTick{}, ""},
      {3.3, AgentTick{}, "LOOK 0; LOOK 1"},
  });
}

// Only the daemon counts on how many nodes ranks link. A rank of this node that
// links shows nothing about other nodes.
TEST(AgentStart, ARankOfItsOwnIsTold) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {1.5, RankAttended{1, 0, false}, ""},
      {2.0, AgentTick{}, "beat 0"},
  });
  EXPECT_TRUE(story.ranks_link());
  // Measured from the rank's start, at 0.3.
  EXPECT_NEAR(story.start_took_s(), 1.2, 1e-6);
  for (int s = 3; s < 60; ++s) {
    story.Tell({{1.0 * s, AgentTick{}, "beat 0"}});
  }
  // The node's slowest rank counts.
  story.Tell(
      {{60.3, RankProgressed{1, 5, 1}, ""}, {61, AgentTick{}, "beat 5"}});
  EXPECT_NEAR(story.start_took_s(), 60, 1e-6);
}

TEST(AgentStart, SoIsAStepOfAPlainOne) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {1.0, AgentTick{}, "beat 0"},
      {1.5, RankProgressed{1, 0, 1}, ""},  // Any change of its file counts.
      {2.0, AgentTick{}, "beat 0"},
      {2.1, RanksLink(1, 4), ""},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
      {4.3, AgentTick{}, "LOOK 0"},
  });
  EXPECT_TRUE(story.ranks_link());
}

// The timeout that the daemon sends counts from the rank's start, also if it
// arrives later. It holds only for the generation that it names.
TEST(AgentStart, EachWorldIsSpokenOfByItself) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.35, RanksLink(1, 5), ""},
      {1.0, AgentTick{}, "beat 0"},
      {1.1, AbortOf(1), "ABORT 1; STOP 0,1 15s"},
      {1.2, Gone(1), "stopped 1"},
      {2.0, AgentTick{}, "beat 0"},
      {2.1, Proposal(2), "PREPARE 2"},
      {2.2, PreparationDone{2}, "prepared 2"},
      {2.3, CommitOf(2), "START 2 port 23456"},
  });
  for (int s = 3; s < 60; ++s) {
    story.Tell({{1.0 * s, AgentTick{}, "beat 0"}});
  }
  story.Tell({
      {59.5, RanksLink(2, 57.5), ""},
      {59.7, AgentTick{}, ""},
      {59.8, AgentTick{}, "LOOK 0; LOOK 1"},
  });
}

TEST(AgentStart, WhoLinksOrPublishesTakesItBack) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.5, RanksLink(), ""},
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {3.5, AgentTick{}, "LOOK 0; LOOK 1"},
      {3.6, RankLooked{{1, 0}, false, ""}, "stalled 0@0"},
      {3.7, RankLooked{{1, 1}, false, ""}, "stalled 1@0"},
      {4.0, AgentTick{}, "beat 0"},
      {4.1, RankAttended{1, 0, false}, "goes-on 0"},
      {4.2, RankProgressed{1, 1, 1}, "goes-on 1"},
      {5.0, AgentTick{}, "beat 1"},
      {6.0, AgentTick{}, "beat 1"},
      {7.0, AgentTick{}, "beat 1"},
      {8.0, AgentTick{}, "beat 1"},
  });
}

TEST(AgentStart, WhoLinksInTimeIsNotLookedAt) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.5, RanksLink(), ""},
      {1.0, AgentTick{}, "beat 0"},
      {1.1, RankAttended{1, 0, false}, ""},
      {1.2, RankAttended{1, 1, true}, ""},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
      {5.0, AgentTick{}, "beat 0"},
  });
}

TEST(AgentStart, OneThatIsNotStartedOrHasEndedIsNotExpected) {
  AgentStory story(/*once=*/true);
  std::vector<Row> rows = Started();
  rows[2].event = ProposalOnce(1, /*first=*/true);
  rows[4].expect = "START 1 port 23456 fresh 0 waiting ";
  story.Tell(rows);
  story.Tell({
      {0.5, RanksLink(), ""},
      {0.6, RankEnded{1, 0, 0}, "exited 0=0/0"},
      {1.0, AgentTick{}, "beat 0"},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
  });
}

TEST(AgentStart, WithoutALimitNobodyIs) {
  // With a start timeout of zero, and without the setting.
  for (std::vector<Row> rows :
       {Started(absl::ZeroDuration()), StartedUnwatched()}) {
    AgentStory story;
    rows.push_back({0.5, RanksLink(), ""});
    // More seconds than the default timeout of ten minutes has.
    for (int s = 1; s < 700; ++s) {
      rows.push_back({1.0 * s, AgentTick{}, "beat 0"});
    }
    story.Tell(rows);
  }
}

TEST(AgentStart, BetweenWorldsNobodyIsAndTheNextOneBeginsAnew) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.5, RankAttended{1, 0, true}, ""},
      {0.6, RanksLink(), ""},
      {1.0, AgentTick{}, "beat 0"},
      {1.1, AbortOf(1), "ABORT 1; STOP 1 15s"},
      {1.2, RankWaits{1, 0, 7, true}, ""},
      {2.0, AgentTick{}, "beat 0"},
      {3.0, AgentTick{}, "beat 0"},
      {4.0, AgentTick{}, "beat 0"},
      {4.1, Gone(1, {1}), "stopped 1"},
      {4.2, Proposal(2), "PREPARE 2"},
      {4.3, PreparationDone{2}, "prepared 2 0@7"},
      {4.5, CommitOf(2), "START 2 port 23456 fresh 1 waiting 0"},
      {5.0, AgentTick{}, "beat 0"},
      {6.0, AgentTick{}, "beat 0"},
      {7.0, AgentTick{}, "beat 0"},
      // Rank 0 ran on from the last world and has linked, so only rank 1 is
      // looked at.
      {7.5, AgentTick{}, "LOOK 1"},
      {7.6, RankLooked{{2, 1}, false, ""}, "stalled 1@0"},
  });
  EXPECT_TRUE(story.ranks_link());
}

TEST(AgentStart, ItIsToldAgainToADaemonThatWasAway) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.5, RanksLink(), ""},
      {0.6, RankProgressed{1, 1, 1}, ""},
      {1.0, AgentTick{}, "beat 1"},
      {2.0, AgentTick{}, "beat 1"},
      {3.0, AgentTick{}, "beat 1"},
      {3.5, AgentTick{}, "LOOK 0"},
      {3.6, RankLooked{{1, 0}, false, ""}, "stalled 0@0"},
      {3.7, Down(), ""},
      {3.725, AgentTick{}, "dial"},
      {3.8, StreamUp{}, "hello i11"},
      {3.9, Welcome(), "stalled 0@0"},
      // The heartbeat tells a restarted daemon what the earlier one had been
      // told.
      {4.9, AgentTick{}, "beat 1"},
  });
  EXPECT_TRUE(story.ranks_link());
}

TEST(AgentStart, ALoopThatWasHeldUpGivesThatTime) {
  AgentStory story;
  story.Tell(Started());
  story.Tell({
      {0.5, RanksLink(), ""},
      {1.0, AgentTick{}, "beat 0"},
      {32.0, AgentTick{}, "beat 0"},  // 30 s late.
      {33.0, AgentTick{}, "beat 0"},
      {33.4, AgentTick{}, ""},
      {33.5, AgentTick{}, "LOOK 0; LOOK 1"},
  });
}

}  // namespace
}  // namespace rollcall
