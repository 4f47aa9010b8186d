#include "daemon/core/hangs/starts.h"

#include <gtest/gtest.h>

#include <vector>

#include "daemon/core/limits.h"

namespace rollcall {
namespace {

TEST(Starts, ExpectedWhereOverHalfOfTheNodesHaveStarted) {
  struct Row {
    size_t nodes;
    std::vector<int> took_s;  // Of each node that has started before.
    bool expected;
    int expect_s;
  };
  const Row kRows[] = {
      {1, {}, false, 0},
      {1, {7}, true, 7},
      {2, {7}, false, 0},
      {2, {9, 7}, true, 9},
      {3, {5, 7}, true, 7},
      // Neither one that is quick nor one that is slow decides it.
      {3, {720, 1, 700}, true, 700},
      {5, {720, 700, 100000}, true, 100000},
      {5, {720, 700, 710, 100000, 690}, true, 710},
      {4, {720, 720}, false, 0},
      {4, {720, 720, 720}, true, 720},
  };
  for (const Row& row : kRows) {
    std::vector<absl::Duration> took;
    for (const int s : row.took_s) took.push_back(absl::Seconds(s));
    const Starts starts(row.nodes, took);
    EXPECT_EQ(starts.expected(), row.expected) << row.nodes;
    EXPECT_EQ(starts.more(), absl::Seconds(row.expect_s)) << row.nodes;
  }
}

TEST(Starts, SaysOnceThatItIsExpected) {
  Starts starts(4, {absl::Seconds(2)});
  EXPECT_FALSE(starts.Add(absl::Seconds(9)));
  EXPECT_FALSE(starts.expected());
  EXPECT_TRUE(starts.Add(absl::Seconds(3)));
  EXPECT_FALSE(starts.Add(absl::Seconds(100)));
  EXPECT_TRUE(starts.expected());
  EXPECT_EQ(starts.more(), absl::Seconds(9));
  EXPECT_FALSE(Starts().expected());
}

TEST(Starts, BoundsWhatNodesSay) {
  const Starts starts(1, {absl::InfiniteDuration()});
  EXPECT_EQ(starts.more(), Limits::wait_max);
}

}  // namespace
}  // namespace rollcall
