#include "daemon/core/formation/generations.h"

#include <gtest/gtest.h>

#include <functional>

namespace rollcall {
namespace {

constexpr uint64_t kFar = uint64_t{1} << 32;

TEST(Generations, TheNextOneIsAboveAllThatWereUsedOrSeen) {
  using G = Generations;
  struct {
    const char* name;
    G from;
    std::function<void(G&)> events;
    uint64_t next;
  } const kRows[] = {
      {"a new run", G(), [](G&) {}, 1},
      {"the one after a proposal", G(), [](G& g) { g.Next(); }, 2},
      {"a run from a journal", G(7), [](G&) {}, 8},
      {"an agent has seen a higher one", G(7), [](G& g) { g.Seen(9); }, 10},
      {"the highest of several", G(7),
       [](G& g) {
         g.Seen(20);
         g.Seen(9);
       },
       21},
      {"an agent has seen a lower one", G(7), [](G& g) { g.Seen(3); }, 8},
      {"an agent has seen this one", G(7), [](G& g) { g.Seen(7); }, 8},
      {"the highest plausible one", G(7), [](G& g) { g.Seen(7 + kFar - 1); },
       7 + kFar},
      {"one that is implausibly high", G(7), [](G& g) { g.Seen(7 + kFar); }, 8},
      {"the highest number", G(), [](G& g) { g.Seen(~uint64_t{0}); }, 1},
      {"an adopted run", G(), [](G& g) { g.Adopt(1000); }, 1001},
      {"an adopted run does not continue this daemon's own numbers", G(),
       [](G& g) {
         for (int i = 0; i < 5; ++i) g.Next();
         g.Adopt(3);
       },
       4},
      {"an agent has seen more than what the adopted run may have proposed",
       G(),
       [](G& g) {
         g.Seen(50);
         g.Adopt(20);
       },
       51},
      {"a world that was committed below the highest proposal", G(7),
       [](G& g) { g.TakeUp(5); }, 8},
      {"the world of an adopted run", G(),
       [](G& g) {
         g.Adopt(1005);
         g.TakeUp(5);
       },
       1006},
      {"an agent has seen the highest proposal, which was journaled", G(7),
       [](G& g) {
         g.TakeUp(5);
         g.Seen(6);
       },
       8},
  };
  for (const auto& row : kRows) {
    G generations = row.from;
    row.events(generations);
    EXPECT_EQ(generations.Next(), row.next) << row.name;
    EXPECT_EQ(generations.current(), row.next) << row.name;
  }
}

TEST(Generations, KnowsWhichWorldsRan) {
  using G = Generations;
  struct {
    const char* name;
    G from;
    std::function<void(G&)> events;
    uint64_t current;
    uint64_t ran;
    bool knows_all_worlds;
    bool may_have_run;
  } const kRows[] = {
      {"a new run", G(), [](G&) {}, 0, 0, true, false},
      {"a proposal", G(), [](G& g) { g.Next(); }, 1, 0, true, false},
      {"a commit", G(),
       [](G& g) {
         g.Next();
         g.Committed();
       },
       1, 1, true, true},
      {"a proposal after a commit", G(),
       [](G& g) {
         g.Next();
         g.Committed();
         g.Next();
       },
       2, 1, true, true},
      {"what an agent says is no world", G(), [](G& g) { g.Seen(9); }, 0, 0,
       true, false},
      {"a journal without a proposal", G(0), [](G&) {}, 0, 0, true, false},
      {"a journal", G(7), [](G&) {}, 7, 0, false, true},
      {"a journal with a world that runs", G(7), [](G& g) { g.TakeUp(5); }, 5,
       5, false, true},
      {"an adopted run", G(), [](G& g) { g.Adopt(1000); }, 0, 0, false, true},
      {"the world of an adopted run", G(),
       [](G& g) {
         g.Adopt(1005);
         g.TakeUp(5);
       },
       5, 5, false, true},
  };
  for (const auto& row : kRows) {
    G generations = row.from;
    row.events(generations);
    EXPECT_EQ(generations.current(), row.current) << row.name;
    EXPECT_EQ(generations.ran(), row.ran) << row.name;
    EXPECT_EQ(generations.knows_all_worlds(), row.knows_all_worlds) << row.name;
    EXPECT_EQ(generations.may_have_run(), row.may_have_run) << row.name;
  }
}

}  // namespace
}  // namespace rollcall
