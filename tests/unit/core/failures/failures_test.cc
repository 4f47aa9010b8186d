#include "daemon/core/failures/failures.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "absl/strings/match.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {
namespace {

const absl::Time kStart = absl::UnixEpoch();

// A world of nodes a and b with two ranks each.
v1::World WorldAB(uint64_t generation) {
  v1::World world;
  world.set_generation(generation);
  for (const char* node : {"a", "b"}) {
    v1::Member& member = *world.add_members();
    member.set_node(node);
    member.set_ranks(2);
    member.set_first_rank(2 * static_cast<uint32_t>(world.members_size() - 1));
  }
  return world;
}

v1::RankExited ExitOf(uint64_t generation, int code, int signal = 0) {
  v1::RankExited exited;
  exited.set_generation(generation);
  exited.set_local_rank(1);
  exited.set_code(code);
  exited.set_signal(signal);
  return exited;
}

v1::RootCause CauseOn(const std::string& node, uint64_t generation, int code) {
  return CauseOfRank(node, 1, ExitOf(generation, code));
}

TEST(Failures, EachRanksFailureCostsARestartUntilThereIsNone) {
  Limits limits;
  limits.max_restarts = 2;
  Failures failures;
  EXPECT_TRUE(failures.EndByRank(WorldAB(1), CauseOn("a", 1, 3), false, kStart,
                                 limits));
  failures.EndByLoss(WorldAB(2),
                     CauseOfLostNode("b", v1::REASON_CODE_LOST_LEASE, "", 2),
                     kStart, limits);
  EXPECT_EQ(failures.charged(), 1u);
  EXPECT_TRUE(failures.EndByRank(WorldAB(3), CauseOn("a", 3, 3), false, kStart,
                                 limits));
  EXPECT_FALSE(failures.EndByRank(WorldAB(4), CauseOn("a", 4, 3), false, kStart,
                                  limits));
  EXPECT_EQ(failures.charged(), 2u);
  EXPECT_EQ(failures.EndOf(limits).code(), v1::REASON_CODE_RESTART_BUDGET);
  EXPECT_EQ(failures.EndOf(limits).exit_code(), 3);
  failures.GiveBack();
  EXPECT_TRUE(failures.EndByRank(WorldAB(5), CauseOn("a", 5, 3), false, kStart,
                                 limits));
}

TEST(Failures, WhatWouldFailAgainIsNotTriedAgain) {
  Limits limits;
  limits.max_restarts = 2;
  Failures failures;
  EXPECT_FALSE(
      failures.EndByRank(WorldAB(1), CauseOn("a", 1, 3), true, kStart, limits));
  EXPECT_FALSE(failures.EndByRank(WorldAB(2), CauseOn("a", 2, 127), false,
                                  kStart, limits));
  EXPECT_EQ(failures.charged(), 0u);
  EXPECT_EQ(failures.EndOf(limits).code(), v1::REASON_CODE_NOT_STARTED);
}

TEST(Failures, TheReasonSpeaksOfRestartsOnlyIfTheyAreUsedUp) {
  Limits limits;
  limits.max_restarts = 2;
  const struct {
    const char* what;
    int restarts;
    int last_code;
    bool used_up;
  } kRows[] = {{"cannot be started, after one restart", 1, 127, false},
               {"the third failure", 2, 3, true}};
  for (const auto& row : kRows) {
    Failures failures;
    for (int i = 1; i <= row.restarts; ++i) {
      EXPECT_TRUE(failures.EndByRank(WorldAB(i), CauseOn("a", i, 3), false,
                                     kStart, limits));
    }
    EXPECT_FALSE(failures.EndByRank(WorldAB(9), CauseOn("a", 9, row.last_code),
                                    false, kStart, limits));
    const v1::End end = failures.EndOf(limits);
    EXPECT_EQ(end.code() == v1::REASON_CODE_RESTART_BUDGET, row.used_up)
        << row.what;
    EXPECT_EQ(absl::StrContains(end.reason(), "restarts"), row.used_up)
        << row.what << ": " << end.reason();
  }
}

TEST(Failures, AHeavierCauseOfTheSameGenerationTakesTheBlameWithinALease) {
  const Limits limits;
  struct Row {
    const char* what;
    uint64_t generation;
    std::string node;
    int signal;
    absl::Duration after;
    bool takes;
  };
  const Row kRows[] = {
      {"heavier", 1, "b", SIGKILL, limits.lease, true},
      {"as heavy", 1, "b", 0, absl::ZeroDuration(), false},
      {"too late", 1, "b", SIGKILL, limits.lease + absl::Milliseconds(1),
       false},
      {"of another generation", 2, "b", SIGKILL, absl::ZeroDuration(), false},
      {"of no member", 1, "c", SIGKILL, absl::ZeroDuration(), false},
  };
  for (const Row& row : kRows) {
    Failures failures;
    failures.EndByRank(WorldAB(1), CauseOn("a", 1, 3), false, kStart, limits);
    const auto former = failures.TakeRank(
        row.node, ExitOf(row.generation, row.signal == 0 ? 3 : 0, row.signal),
        kStart + row.after);
    EXPECT_EQ(former.has_value(), row.takes) << row.what;
    EXPECT_EQ(failures.cause().node(), row.takes ? "b" : "a") << row.what;
    EXPECT_EQ(failures.causes().back().node(), failures.cause().node());
    if (row.takes) {
      EXPECT_EQ(former->node(), "a");
      EXPECT_EQ(failures.cause().rank(), 3);
    }
  }
}

TEST(Failures, ALostNodeGivesBackWhatWasCharged) {
  const Limits limits;
  Failures failures;
  failures.EndByRank(WorldAB(1), CauseOn("a", 1, 3), false, kStart, limits);
  EXPECT_EQ(failures.charged(), 1u);
  const auto lose = [&](const std::string& node, absl::Duration after) {
    return failures
        .TakeLoss(node, v1::REASON_CODE_LOST_STREAM, "", kStart + after)
        .has_value();
  };
  EXPECT_FALSE(lose("c", absl::ZeroDuration()));
  EXPECT_FALSE(lose("b", limits.lease + absl::Milliseconds(1)));
  EXPECT_EQ(failures.charged(), 1u);
  EXPECT_TRUE(lose("b", limits.lease));
  EXPECT_EQ(failures.charged(), 0u);
  // The node that was lost first is the cause.
  EXPECT_FALSE(lose("a", limits.lease));
  EXPECT_EQ(failures.cause().node(), "b");
}

TEST(Failures, TheLatestCausesAreKept) {
  const Limits limits;
  Failures failures;
  for (uint64_t g = 1; g <= Limits::causes_max + 5; ++g) {
    failures.EndByRank(WorldAB(g), CauseOn("a", g, 3), false, kStart, limits);
  }
  EXPECT_EQ(failures.causes().size(), Limits::causes_max);
  EXPECT_EQ(failures.causes().back().generation(), Limits::causes_max + 5);
}

TEST(Failures, TheBlameWindowEndsWhenAllHaveStoppedOrAfterALease) {
  const Limits limits;
  const absl::Duration tick = absl::Milliseconds(1);
  struct {
    const char* what;
    size_t members;
    size_t stopped;
    absl::Duration after;
    bool over;
  } const kRows[] = {
      {"none has stopped", 2, 0, tick, false},
      {"one has stopped", 2, 1, tick, false},
      {"all have stopped", 2, 2, tick, true},
      {"no member is left", 0, 0, tick, true},
      {"shortly before a lease", 2, 1, limits.lease - tick, false},
      {"after a lease", 2, 1, limits.lease, true},
  };
  for (const auto& row : kRows) {
    Failures failures;
    failures.EndByRank(WorldAB(1), CauseOn("a", 1, 3), true, kStart, limits);
    EXPECT_EQ(failures.window_ends(), kStart + limits.lease);
    failures.AwaitStops(row.members);
    for (size_t i = 0; i < row.stopped; ++i) failures.NoteStopped();
    EXPECT_EQ(failures.WindowIsOver(kStart + row.after), row.over) << row.what;
  }
}

}  // namespace
}  // namespace rollcall
