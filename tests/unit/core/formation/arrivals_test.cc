#include "daemon/core/formation/arrivals.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// last_call is 1 s, and arrivals count for 60 s.
TEST(LastCall, EndsAfterTheLatestArrivalThatCounts) {
  enum What { kArrives, kReturns, kEnough, kTooFew };
  struct Step {
    double at;
    What what;
  };
  struct {
    const char* name;
    std::vector<Step> steps;
    double ends;
    bool overdue;
  } const kRows[] = {
      {"nobody", {}, 1, false},
      {"each arrival before there are enough",
       {{2, kArrives}, {3, kReturns}, {4, kArrives}},
       5,
       false},
      {"a new name after that", {{2, kEnough}, {2.5, kArrives}}, 3.5, false},
      {"a name that was here before does not count",
       {{2, kArrives}, {2, kEnough}, {2.5, kReturns}, {2.9, kReturns}},
       3,
       false},
      {"new names count for a minute",
       {{2, kArrives}, {2, kEnough}, {61.9, kArrives}, {62.8, kArrives}},
       62.9,
       true},
      {"enough for the second time",
       {{2, kEnough}, {5, kTooFew}, {90, kReturns}, {90, kEnough}},
       91,
       false},
      {"the minute begins when there are enough",
       {{90, kArrives}, {90, kEnough}, {149, kArrives}},
       150,
       false},
  };
  const Limits limits;
  for (const auto& row : kRows) {
    LastCall call(At(0));
    for (const Step& step : row.steps) {
      const absl::Time now = At(step.at);
      if (step.what == kArrives) {
        call.Arrived(absl::InfinitePast(), now, limits);
      } else if (step.what == kReturns) {
        call.Arrived(At(0.5), now, limits);
      } else {
        call.SetEnough(step.what == kEnough, now);
      }
    }
    EXPECT_EQ(call.Ends(limits), At(row.ends)) << row.name;
    EXPECT_EQ(call.overdue(), row.overdue) << row.name;
  }
}

TEST(LastCall, ANameOfAnEarlierGatheringCounts) {
  LastCall call(At(10));
  call.SetEnough(true, At(10));
  call.Arrived(At(9), At(10.5), Limits());
  EXPECT_EQ(call.Ends(Limits()), At(11.5));
}

struct Loss {
  double at;
  std::string name;
  uint64_t generation;
  absl::Duration lasted = absl::ZeroDuration();
};

// The delay in seconds after the last loss.
double DelayOf(const std::vector<Loss>& losses, const std::string& name) {
  const Limits limits;
  Newcomers newcomers;
  for (const Loss& loss : losses) {
    newcomers.Lost(loss.name, loss.generation, loss.lasted, At(loss.at),
                   limits);
  }
  const absl::Time now = At(losses.empty() ? 0 : losses.back().at);
  return std::max(0.0, absl::ToDoubleSeconds(
                           newcomers.HoldOf(name, now, limits).until - now));
}

// Losses of the same name, each a generation and 1 s after the one before.
std::vector<Loss> Flaps(int times, double from = 0) {
  std::vector<Loss> losses;
  for (int i = 0; i < times; ++i) {
    losses.push_back({from + i, "f", static_cast<uint64_t>(1 + i)});
  }
  return losses;
}

// Losses of these names at the same moment, each in another generation.
std::vector<Loss> Several(int names) {
  std::vector<Loss> losses;
  for (int i = 0; i < names; ++i) {
    losses.push_back({0, absl::StrCat("n", i), static_cast<uint64_t>(1 + i)});
  }
  return losses;
}

TEST(Newcomers, TheDelayDoublesWithEachLossOfAName) {
  const double kDelays[] = {0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300};
  for (int times = 0; times < 13; ++times) {
    EXPECT_EQ(DelayOf(Flaps(times), "f"), kDelays[times]) << times;
    EXPECT_EQ(DelayOf(Flaps(times), "other"), 0) << times;
  }
  EXPECT_EQ(DelayOf(Flaps(100000), "f"), 300);
}

TEST(Newcomers, NamesBeyondAFewAreCountedTogether) {
  const int few = static_cast<int>(Limits::newcomer_names_max);
  EXPECT_EQ(DelayOf(Several(few + 1), "new"), 0);
  EXPECT_EQ(DelayOf(Several(few + 2), "new"), 1);
  EXPECT_EQ(DelayOf(Several(few + 5), "new"), 8);
  EXPECT_EQ(DelayOf(Several(few + 5), absl::StrCat("n", few)), 8);
  // This name has a count of its own, and was lost once.
  EXPECT_EQ(DelayOf(Several(few + 5), "n0"), 0);
  EXPECT_EQ(DelayOf(Several(1000), "new"), 300);
}

TEST(Newcomers, WhatCounts) {
  struct {
    const char* name;
    std::vector<Loss> losses;
    double delay;
  } const kRows[] = {
      {"one that had lasted", {{0, "f", 1}, {1, "f", 2, absl::Minutes(10)}}, 0},
      {"one that had nearly", {{0, "f", 1}, {1, "f", 2, absl::Minutes(9)}}, 1},
      {"twice in one generation", {{0, "f", 1}, {1, "f", 1}}, 0},
      {"within ten minutes after its delay", {{0, "f", 1}, {599, "f", 2}}, 1},
      {"later, from the beginning", {{0, "f", 1}, {600, "f", 2}}, 0},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(DelayOf(row.losses, "f"), row.delay) << row.name;
  }
  // Many losses in one generation count as one, because a switch or a rack
  // causes them.
  std::vector<Loss> rack;
  for (int i = 0; i < 100; ++i) rack.push_back({0, absl::StrCat("n", i), 7});
  EXPECT_EQ(DelayOf(rack, "new"), 0);
}

TEST(Newcomers, ForgottenNamesMakeRoom) {
  const Limits limits;
  Newcomers newcomers;
  for (int i = 0; i < 1000; ++i) {
    newcomers.Lost(absl::StrCat("n", i), static_cast<uint64_t>(1 + i), {},
                   At(0), limits);
    EXPECT_LE(newcomers.names(), Limits::newcomer_names_max);
  }
  EXPECT_FALSE(newcomers.HoldOf("late", At(0), limits).own);
  newcomers.Lost("late", 2000, {}, At(1000), limits);
  const Newcomers::Hold hold = newcomers.HoldOf("late", At(1000), limits);
  EXPECT_TRUE(hold.own);
  EXPECT_EQ(hold.losses, 1u);
}

TEST(Newcomers, ALossCountsForAMemberOrANodeThatAWorldWasEndedFor) {
  const Limits limits;
  struct {
    const char* what;
    bool member;
    bool called;
    absl::Time joined_at;
    bool counts;
  } const kRows[] = {
      {"a spare", false, false, absl::InfiniteFuture(), false},
      {"a spare that was in a world", false, false, At(0), false},
      {"a world was ended for it", false, true, absl::InfiniteFuture(), true},
      {"a member whose world was not committed", true, false,
       absl::InfiniteFuture(), true},
      {"a member for a short time", true, false, At(601), true},
      {"a member for long enough", true, false, At(600), false},
  };
  for (const auto& row : kRows) {
    Newcomers newcomers;
    Node node;
    node.hello.set_node("f");
    node.node_rank = row.member ? 0 : -1;
    node.called = row.called;
    node.joined_at = row.joined_at;
    newcomers.Lost(node, 1, At(1200), limits);
    newcomers.Lost(node, 1, At(1200), limits);
    const Newcomers::Hold hold = newcomers.HoldOf("f", At(1200), limits);
    EXPECT_EQ(hold.losses, row.counts ? 1u : 0u) << row.what;
    EXPECT_EQ(hold.own, row.counts) << row.what;
    EXPECT_FALSE(node.called) << row.what;
    // The second loss does not count, because the world was ended for this node
    // only once.
    if (row.member) continue;
    newcomers.Lost(node, 2, At(1200), limits);
    EXPECT_EQ(newcomers.HoldOf("f", At(1200), limits).losses, hold.losses)
        << row.what;
  }
}

TEST(Newcomers, TheTextIsThereWhileTheNodeIsHeld) {
  const Limits limits;
  Newcomers newcomers;
  EXPECT_EQ(newcomers.HoldText("f", At(0), limits), "");
  newcomers.Lost("f", 1, {}, At(0), limits);
  EXPECT_EQ(newcomers.HoldText("f", At(0), limits), "");
  newcomers.Lost("f", 2, {}, At(0), limits);
  EXPECT_EQ(newcomers.HoldText("f", At(0), limits),
            "it was lost 2 times soon after joining; it gets no seat until 1s "
            "after the latest loss");
  EXPECT_EQ(newcomers.HoldText("other", At(0), limits), "");
  EXPECT_EQ(newcomers.HoldText("f", At(0.9), limits),
            newcomers.HoldText("f", At(0), limits));
  EXPECT_EQ(newcomers.HoldText("f", At(1), limits), "");
  // These names share one count.
  for (uint64_t i = 0; i < Limits::newcomer_names_max + 2; ++i) {
    newcomers.Lost(absl::StrCat("n", i), 3 + i, {}, At(2), limits);
  }
  EXPECT_EQ(newcomers.HoldText("new", At(2), limits),
            "new nodes of several names were lost 3 times soon after joining; "
            "a new node gets no seat until 2s after the latest loss");
}

TEST(Newcomers, AWorldGrowsAtTheEarliestTimeThatWasAskedFor) {
  Newcomers newcomers;
  EXPECT_EQ(newcomers.grow_at(), absl::InfiniteFuture());
  newcomers.GrowBy(At(5));
  newcomers.GrowBy(At(7));
  EXPECT_EQ(newcomers.grow_at(), At(5));
  newcomers.GrowBy(At(3));
  EXPECT_EQ(newcomers.grow_at(), At(3));
  newcomers.GrowAt(At(9));
  EXPECT_EQ(newcomers.grow_at(), At(9));
  newcomers.StopGrowing();
  EXPECT_EQ(newcomers.grow_at(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace rollcall
