#include "trainer/model/memory_plan.h"

#include <gtest/gtest.h>

namespace rollcall {
namespace {

// The state needs 100, and each sequence needs 10.
struct Wished {
  const char* what;
  int share, wished;
  double most, room;
  int expect;  // 0: RESOURCE_EXHAUSTED.
};

constexpr double kPlenty = 1e9;
constexpr Wished kWished[] = {
    {"all of it fits", 12, 0, 0, kPlenty, 12},
    {"all of it just fits", 12, 0, 0, 120, 12},
    {"one too many: two equal ones", 12, 0, 0, 119, 6},
    {"five fit: three of four", 12, 0, 0, 50, 4},
    {"seven fit: two of six", 12, 0, 0, 79, 6},
    {"one fits", 12, 0, 0, 10, 1},
    {"not even one seems to fit", 12, 0, 0, 9, 1},
    {"no room at all", 12, 0, 0, -5, 1},
    {"a share of one", 1, 0, 0, 10, 1},
    {"no share", 0, 0, 0, 10, 1},
    {"a prime share", 13, 0, 0, 60, 5},
    {"a wish", 12, 5, 0, kPlenty, 5},
    {"a wish above the share", 12, 50, 0, kPlenty, 12},
    {"a wish that does not seem to fit", 12, 5, 0, 40, 5},
    {"a limit above the room", 12, 0, 1000, 60, 6},
    {"a limit below the room", 12, 0, 160, kPlenty, 6},
    {"a limit that is just enough for one", 12, 0, 110, kPlenty, 1},
    {"a limit below one", 12, 0, 109, kPlenty, 0},
    {"a limit below the state", 12, 0, 50, kPlenty, 0},
    {"a limit below the wish", 12, 7, 160, kPlenty, 0},
    {"a limit of just the wish", 12, 6, 160, kPlenty, 6},
};

TEST(MemoryPlan, AsInTheTable) {
  for (const Wished& row : kWished) {
    SCOPED_TRACE(row.what);
    MemoryWishes wishes;
    wishes.share = row.share;
    wishes.micro_batch = row.wished;
    wishes.most = row.most;
    MemoryFacts facts;
    facts.state = 100;
    facts.room = row.room;
    facts.activations = [](int sequences) { return 10.0 * sequences; };
    const absl::StatusOr<MemoryPlan> plan = PlanMemory(wishes, facts);
    if (row.expect == 0) {
      EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->micro_batch, row.expect);
    EXPECT_EQ(plan->state, 100);
    EXPECT_EQ(plan->activations, 10 * row.expect);
  }
}

TEST(MemoryPlan, OneSampleIsNotSamples) {
  MemoryPlan plan;
  EXPECT_NE(plan.ToString().find("1 of its 1 sample at once"),
            std::string::npos)
      << plan.ToString();
  plan.share = 2;
  EXPECT_NE(plan.ToString().find("1 of its 2 samples at once"),
            std::string::npos)
      << plan.ToString();
}

}  // namespace
}  // namespace rollcall
