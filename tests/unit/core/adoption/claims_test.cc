#include "daemon/core/adoption/claims.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/core/formation/world.h"
#include "tests/unit/core/small_world.h"

namespace rollcall {
namespace {

TEST(Claims, OverHalfOfAWorldIsEnough) {
  const v1::World world = WorldOf(7, {"a", "b", "c", "d"});
  Claims claims;
  for (int row = 0; row < 2; ++row) {
    EXPECT_TRUE(claims.Take(10 + static_cast<uint64_t>(row),
                            HelloOf(world, row), 1, 2, 4));
    EXPECT_EQ(claims.Chosen(false), nullptr) << row;
  }
  EXPECT_TRUE(claims.Take(12, HelloOf(world, 2), 1, 2, 4));
  ASSERT_NE(claims.Chosen(false), nullptr);
  EXPECT_EQ(claims.Chosen(false)->world.generation(), 7u);
  EXPECT_EQ(claims.StreamOf("b"), 11u);
  claims.Drop(11);
  EXPECT_EQ(claims.StreamOf("b"), std::nullopt);
  EXPECT_EQ(claims.Chosen(false), nullptr);
}

TEST(Claims, AHigherGenerationIsWaitedForUntilTimeIsOver) {
  const v1::World older = WorldOf(7, {"a", "b"});
  const v1::World newer = WorldOf(9, {"b", "c", "d"});
  Claims claims;
  EXPECT_TRUE(claims.Take(1, HelloOf(older, 0), 1, 2, 4));
  EXPECT_TRUE(claims.Take(2, HelloOf(older, 1), 1, 2, 4));
  EXPECT_TRUE(claims.Take(3, HelloOf(newer, 1), 1, 2, 4));
  EXPECT_EQ(claims.Chosen(false), nullptr);
  ASSERT_NE(claims.Chosen(true), nullptr);
  EXPECT_EQ(claims.Chosen(true)->world.generation(), 7u);
  EXPECT_TRUE(claims.Take(4, HelloOf(newer, 2), 1, 2, 4));
  EXPECT_EQ(claims.Chosen(true)->world.generation(), 9u);
}

TEST(Claims, WhatIsNoWorldOfThisJobIsNotTaken) {
  const v1::World world = WorldOf(7, {"a", "b"});
  struct Row {
    const char* what;
    void (*change)(v1::Hello& hello);
    uint64_t epoch;
    uint32_t nodes_min;
  };
  const Row kRows[] = {
      {"another incarnation", [](v1::Hello& h) { h.set_incarnation(5); }, 1, 2},
      {"another epoch", [](v1::Hello&) {}, 2, 2},
      {"more ranks", [](v1::Hello& h) { h.set_ranks(2); }, 1, 2},
      {"another run", [](v1::Hello& h) { h.set_run("run2"); }, 1, 2},
      {"no member", [](v1::Hello& h) { h.set_node("c"); }, 1, 2},
      {"another generation",
       [](v1::Hello& h) {
         h.mutable_resume_state()->set_running_generation(8);
       },
       1, 2},
      {"no world",
       [](v1::Hello& h) { h.mutable_resume_state()->set_world("x"); }, 1, 2},
      {"too few nodes", [](v1::Hello&) {}, 1, 3},
  };
  for (const Row& row : kRows) {
    Claims claims;
    v1::Hello hello = HelloOf(world, 0);
    row.change(hello);
    EXPECT_FALSE(claims.Take(1, hello, row.epoch, row.nodes_min, 4))
        << row.what;
    EXPECT_EQ(claims.StreamOf(hello.node()), std::nullopt) << row.what;
  }
}

TEST(Claims, FewWorldsAreKept) {
  Claims claims;
  for (uint64_t g = 1; g <= Limits::claimed_worlds_max; ++g) {
    EXPECT_TRUE(claims.Take(g, HelloOf(WorldOf(g, {"a", "b"}), 0), 1, 2, 4));
  }
  EXPECT_FALSE(claims.Take(
      99, HelloOf(WorldOf(Limits::claimed_worlds_max + 1, {"a", "b"}), 0), 1, 2,
      4));
  EXPECT_EQ(claims.size(), Limits::claimed_worlds_max);
}

}  // namespace
}  // namespace rollcall
