#include "daemon/core/network_plan/probing/rounds.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using Names = std::set<std::string>;

TEST(Rounds, AWorldThatCannotBePlannedIsTriedThreeTimes) {
  Rounds rounds;
  EXPECT_EQ(rounds.repeat_at(), absl::InfinitePast());
  for (int round = 1; round < 3; ++round) {
    ASSERT_TRUE(rounds.MayRepeat()) << round;
    rounds.Repeat(At(round));
    EXPECT_EQ(rounds.repeat_at(), At(round + 1)) << round;
  }
  EXPECT_FALSE(rounds.MayRepeat());
  rounds.Reset();
  EXPECT_TRUE(rounds.MayRepeat());
  EXPECT_EQ(rounds.repeat_at(), absl::InfinitePast());
}

TEST(Rounds, ANodeThatAttendedAfterItsRoundIsNotCovered) {
  struct Row {
    const char* node;
    double attended;
    bool covered;
  };
  const Row kRows[] = {
      {"a", 1, true}, {"a", 5, true}, {"a", 5.1, false}, {"b", 1, false}};
  Rounds rounds;
  rounds.Open({"a", "c"}, At(5));
  EXPECT_EQ(rounds.opened_at(), At(5));
  for (const Row& row : kRows) {
    EXPECT_EQ(rounds.Covers(row.node, At(row.attended)), row.covered)
        << row.node << " " << row.attended;
  }
  rounds.Reset();
  EXPECT_FALSE(rounds.Covers("a", At(1)));
}

TEST(Rounds, NewcomersAreProbedWhenTheFirstOneAsksAndThePauseIsOver) {
  Rounds rounds;
  EXPECT_EQ(rounds.due(), absl::InfiniteFuture());
  rounds.ProbeBy(At(2));
  rounds.ProbeBy(At(3));
  EXPECT_EQ(rounds.due(), At(2));
  EXPECT_FALSE(rounds.PingDue(At(2)));
  // The pause grows with the number of nodes: it is one second for 2,000 nodes.
  EXPECT_TRUE(rounds.OpenFor({"a"}, false, 2000, At(2)));
  EXPECT_EQ(rounds.nodes(), Names{"a"});
  EXPECT_EQ(rounds.opened_at(), At(2));
  EXPECT_EQ(rounds.pause_ends(), At(3));
  rounds.JudgeAt(At(4));
  EXPECT_EQ(rounds.due(), At(4));
  rounds.ProbeBy(At(2.5));
  EXPECT_EQ(rounds.due(), At(3));
  // A round that has ended can also be judged during the pause.
  rounds.JudgeBy(At(2.6));
  EXPECT_EQ(rounds.due(), At(2.6));
  EXPECT_EQ(rounds.TakeNodes(), Names{"a"});
  EXPECT_EQ(rounds.nodes(), Names{});
  rounds.JudgeAt(absl::InfiniteFuture());
  EXPECT_EQ(rounds.due(), absl::InfiniteFuture());
}

TEST(Rounds, ARoundForNoneIsNotOpened) {
  Rounds rounds;
  EXPECT_FALSE(rounds.OpenFor({}, false, 2000, At(1)));
  EXPECT_EQ(rounds.opened_at(), absl::InfinitePast());
  EXPECT_EQ(rounds.pause_ends(), absl::InfinitePast());
  // But it opens if all nodes are probed anyway.
  EXPECT_TRUE(rounds.OpenFor({}, true, 2000, At(1)));
  EXPECT_EQ(rounds.opened_at(), At(1));
}

TEST(Rounds, AllNodesAreProbedEveryPingInterval) {
  struct Row {
    double interval;
    double timeout;
    absl::Time due;
  };
  const Row kRows[] = {
      {0, 2, absl::InfiniteFuture()},
      {60, 2, At(70)},
      // A round can take longer than the interval.
      {1, 2, At(12)},
  };
  for (const Row& row : kRows) {
    Limits limits;
    limits.ping_interval = absl::Seconds(row.interval);
    limits.probe_timeout = absl::Seconds(row.timeout);
    Rounds rounds;
    rounds.PingLater(At(10), limits);
    EXPECT_EQ(rounds.due(), row.due) << row.interval;
    EXPECT_FALSE(rounds.PingDue(At(11.9))) << row.interval;
    EXPECT_EQ(rounds.PingDue(At(70)), row.interval > 0) << row.interval;
  }
}

TEST(Rounds, WhileNodesAreProbedOftenTheIntervalIsFiveSecondsOrLess) {
  struct Row {
    double interval;
    double often_due;
    absl::Time after;
  };
  const Row kRows[] = {
      {0, 25, absl::InfiniteFuture()}, {60, 25, At(95)}, {4, 24, At(39)}};
  for (const Row& row : kRows) {
    Limits limits;
    limits.ping_interval = absl::Seconds(row.interval);
    Rounds rounds;
    rounds.PingLater(At(18), limits);
    rounds.PingOften(true, At(20), limits);
    EXPECT_EQ(rounds.due(), At(20)) << row.interval;
    rounds.PingLater(At(20), limits);
    EXPECT_EQ(rounds.due(), At(row.often_due)) << row.interval;
    // Only the first call opens a round at once.
    rounds.PingOften(true, At(21), limits);
    EXPECT_EQ(rounds.due(), At(row.often_due)) << row.interval;
    rounds.PingOften(false, At(35), limits);
    EXPECT_EQ(rounds.due(), row.after) << row.interval;
  }
}

TEST(Rounds, ProbesThatAreOftenAlsoAwaitThePauseAndEndWithTheWorld) {
  Rounds rounds;
  rounds.OpenFor({"a"}, false, 2000, At(1));
  rounds.PingOften(true, At(1.5), Limits());
  EXPECT_EQ(rounds.due(), At(2));
  rounds.EndWorld();
  rounds.PingLater(At(3), Limits());
  EXPECT_EQ(rounds.due(), absl::InfiniteFuture());
}

TEST(Rounds, WhatIsPutOffIsDueThenAndNotBefore) {
  Limits limits;
  limits.ping_interval = absl::Seconds(60);
  Rounds rounds;
  rounds.PingLater(At(0), limits);
  rounds.ProbeBy(At(1));
  rounds.PutOff(At(5));
  EXPECT_EQ(rounds.due(), At(5));
  EXPECT_FALSE(rounds.PingDue(At(5)));
  rounds.PutOff(At(61));
  EXPECT_EQ(rounds.due(), At(61));
  EXPECT_FALSE(rounds.PingDue(At(60)));
  EXPECT_TRUE(rounds.PingDue(At(61)));
}

TEST(Rounds, NothingIsDueOnceTheWorldHasEnded) {
  Limits limits;
  limits.ping_interval = absl::Seconds(60);
  Rounds rounds;
  rounds.PingLater(At(0), limits);
  rounds.OpenFor({"a", "b"}, true, 2000, At(1));
  rounds.JudgeAt(At(3));
  EXPECT_EQ(rounds.EndWorld(), (Names{"a", "b"}));
  EXPECT_EQ(rounds.nodes(), Names{});
  EXPECT_EQ(rounds.due(), absl::InfiniteFuture());
  // The next world starts without a pause.
  rounds.ProbeBy(At(1.5));
  EXPECT_EQ(rounds.due(), At(1.5));
}

}  // namespace
}  // namespace rollcall
