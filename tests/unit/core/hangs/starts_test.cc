#include "daemon/core/hangs/starts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/core/limits.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {
namespace {

TEST(Starts, ExpectedWhereOverHalfOfTheNodesHaveStarted) {
  struct Row {
    size_t nodes;
    std::vector<int> took_s;  // Of the nodes that have started already.
    bool expected;
    int expect_s;
  };
  const Row kRows[] = {
      {1, {}, false, 0},
      {1, {7}, true, 7},
      {2, {7}, false, 0},
      {2, {9, 7}, true, 9},
      {3, {5, 7}, true, 7},
      // The result depends neither on one fast node nor on one slow node.
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

TEST(Starts, OnlyMembersHaveStarted) {
  struct {
    const char* what;
    bool member;
    bool started;
    bool any;
  } const kRows[] = {
      {"a member before its start", true, false, false},
      {"a member", true, true, true},
      {"a spare that was a member", false, true, false},
  };
  EXPECT_FALSE(AnyHasStarted(Membership()));
  for (const auto& row : kRows) {
    Membership membership;
    AddMember(membership, "a", 0);
    Node& node = AddMember(membership, "b", row.member ? 1 : -1);
    if (row.started) node.ranks.start_took = absl::Seconds(3);
    EXPECT_EQ(AnyHasStarted(membership), row.any) << row.what;
  }
}

TEST(Starts, AWorldBeginsWithWhatItsMembersTookBefore) {
  struct {
    const char* what;
    // Start times of members a, b and c; -1: has not started.
    int took_s[3];
    const char* left;  // Members that have left.
    bool expected;
    int more_s;
  } const kRows[] = {
      {"none has started", {-1, -1, -1}, "", false, 0},
      {"one of three", {7, -1, -1}, "", false, 0},
      {"two of three", {7, 5, -1}, "", true, 7},
      {"all", {7, 5, 6}, "", true, 6},
      // The two that have left still count as nodes of the world, but not as
      // started.
      {"one of three, two have left", {7, -1, 5}, "bc", false, 0},
  };
  for (const auto& row : kRows) {
    v1::World world;
    Membership membership;
    for (int i = 0; i < 3; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      world.add_members()->set_node(name);
      Node& node = AddMember(membership, name, i);
      if (row.took_s[i] >= 0)
        node.ranks.start_took = absl::Seconds(row.took_s[i]);
    }
    // A spare does not count.
    AddNode(membership, "s").ranks.start_took = absl::Seconds(1);
    for (const char* name = row.left; *name != 0; ++name) {
      membership.Remove(membership.At(std::string(1, *name)));
    }
    Starts starts(world, membership);
    EXPECT_EQ(starts.expected(), row.expected) << row.what;
    EXPECT_EQ(starts.more(), absl::Seconds(row.more_s)) << row.what;
    if (!row.expected) {
      starts.Add(absl::Seconds(9));
      EXPECT_EQ(starts.Add(absl::Seconds(9)), row.took_s[0] < 0) << row.what;
      EXPECT_TRUE(starts.expected()) << row.what;
    }
  }
}

}  // namespace
}  // namespace rollcall
