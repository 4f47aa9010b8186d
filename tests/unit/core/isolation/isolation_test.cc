#include "daemon/core/isolation/isolation.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

using Names = std::vector<std::string>;
const absl::Time kStart = absl::UnixEpoch();

TEST(Isolation, StreamsOfOverATenthThatBreakTogetherAreLeftToTheirLeases) {
  const Limits limits;
  ASSERT_EQ(Limits::mass_break_min, 3u);
  struct Row {
    size_t members;
    size_t breaks;  // Breaks of different nodes, all at once.
    size_t left;    // How many are left by the last break.
  };
  const Row kRows[] = {
      {4, 2, 0},  {4, 3, 3},    {29, 3, 3},    {30, 3, 0},
      {30, 4, 4}, {100, 10, 0}, {100, 11, 11},
  };
  for (const Row& row : kRows) {
    Isolation isolation;
    Names left;
    for (size_t i = 0; i < row.breaks; ++i) {
      left = isolation.NoteBreak(absl::StrCat("n", i), row.members, kStart,
                                 limits);
    }
    EXPECT_EQ(left.size(), row.left) << row.members << " " << row.breaks;
  }
}

TEST(Isolation, OneThatBreaksAgainAndAgainIsOneWithinItsWindow) {
  const Limits limits;
  Isolation isolation;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(isolation.NoteBreak("a", 4, kStart, limits), Names());
  }
  const absl::Time later =
      kStart + limits.mass_break_window + absl::Milliseconds(1);
  EXPECT_EQ(isolation.NoteBreak("b", 4, later, limits), Names());
  EXPECT_EQ(isolation.NoteBreak("c", 4, later, limits), Names());
  // a's break counts again, and each node is named once.
  EXPECT_EQ(isolation.NoteBreak("a", 4, later, limits), (Names{"a", "c", "b"}));
  EXPECT_EQ(isolation.NoteBreak("d", 4, later, limits), (Names{"d"}));
}

TEST(Isolation, LastsWhileOverHalfIsSilent) {
  Isolation isolation;
  EXPECT_FALSE(isolation.on());
  EXPECT_EQ(isolation.until(), absl::InfiniteFuture());
  isolation.Begin({"a", "b", "c"}, kStart + absl::Minutes(10));
  EXPECT_TRUE(isolation.on());
  EXPECT_FALSE(isolation.FewAreSilent(4));
  EXPECT_FALSE(isolation.NoteHeard("d"));
  EXPECT_TRUE(isolation.NoteHeard("a"));
  EXPECT_FALSE(isolation.NoteHeard("a"));
  EXPECT_TRUE(isolation.FewAreSilent(4));
  EXPECT_FALSE(isolation.FewAreSilent(3));
  isolation.PutOff(absl::Seconds(1));
  EXPECT_EQ(isolation.until(), kStart + absl::Minutes(10) + absl::Seconds(1));
  EXPECT_EQ(isolation.End(), (std::set<std::string>{"b", "c"}));
  EXPECT_FALSE(isolation.on());
  EXPECT_EQ(isolation.silent(), 0u);
}

TEST(Isolation, SilentIsOneThatIsNotHeardForHalfALease) {
  const Limits limits;
  const absl::Duration half = limits.lease / 2;
  struct {
    const char* what;
    SessionId session;
    absl::Duration lease_left;
    bool broke_with_many;
    bool silent;
  } const kRows[] = {
      {"just heard", 1, limits.lease, false, false},
      {"not for nearly half a lease", 1, half + absl::Milliseconds(1), false,
       false},
      {"not for half a lease", 1, half, false, true},
      {"its lease has ended", 1, -limits.lease, false, true},
      {"its stream broke alone", 0, limits.lease, false, false},
      {"its stream broke alone, long ago", 0, -limits.lease, false, false},
      {"its stream broke with others", 0, limits.lease, true, true},
      {"it is back after that", 1, limits.lease, true, false},
  };
  for (const auto& row : kRows) {
    Node node;
    node.session = row.session;
    node.lease.until = kStart + row.lease_left;
    node.lease.broke_with_many = row.broke_with_many;
    EXPECT_EQ(Isolation::IsSilent(node, kStart, limits), row.silent)
        << row.what;
  }
}

TEST(Isolation, BeginsWhenOverHalfOfTheMembersAreSilent) {
  const Limits limits;
  struct {
    size_t members;
    size_t silent;
    bool begins;
  } const kRows[] = {
      {0, 0, false}, {1, 0, false}, {1, 1, true},  {2, 1, false}, {2, 2, true},
      {3, 1, false}, {3, 2, true},  {4, 2, false}, {4, 3, true},
  };
  for (const auto& row : kRows) {
    std::vector<Node> nodes(row.members);
    std::vector<const Node*> members;
    std::set<std::string> silent;
    for (size_t i = 0; i < row.members; ++i) {
      const std::string name = absl::StrCat("n", i);
      nodes[i].hello.set_node(name);
      nodes[i].session = i + 1;
      nodes[i].lease.until = kStart + limits.lease;
      members.push_back(&nodes[i]);
      if (i >= row.silent) continue;
      nodes[i].lease.until = kStart;
      silent.insert(name);
    }
    Isolation isolation;
    EXPECT_EQ(isolation.MaybeBegin(members, kStart, limits), row.begins)
        << row.members << " " << row.silent;
    EXPECT_EQ(isolation.on(), row.begins);
    EXPECT_EQ(isolation.until(), row.begins ? kStart + limits.daemon_grace
                                            : absl::InfiniteFuture());
    EXPECT_EQ(isolation.End(), row.begins ? silent : std::set<std::string>());
    EXPECT_EQ(isolation.until(), absl::InfiniteFuture());
  }
}

}  // namespace
}  // namespace rollcall
