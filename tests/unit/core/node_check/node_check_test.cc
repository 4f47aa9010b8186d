#include "daemon/core/node_check/node_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/core/node_check/played_check.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

TEST(NodeCheck, GroupsOfOneToSevenNodes) {
  // b fails in the first round only, so that a second round is seen.
  struct {
    std::string nodes;
    std::vector<std::string> groups;
  } const kRows[] = {
      {"a", {}},
      {"ab", {"ab", "ab"}},
      {"abc", {"abc", "abc"}},
      {"abcd", {"ab cd", "cb da"}},
      {"abcde", {"ab cde", "cb dae"}},
      {"abcdef", {"ab cd ef", "cf da eb"}},
      {"abcdefg", {"ab cd efg", "cg da ebf"}},
  };
  for (const auto& row : kRows) {
    NodeCheck check = Checker();
    const Played played = Play(check, Nodes(row.nodes), {{{"b", kFails}}}, 9);
    if (row.groups.empty()) {
      EXPECT_EQ(played.found, "no verdict");
      continue;
    }
    ASSERT_EQ(played.groups.size(), 2u) << row.nodes;
    EXPECT_EQ(played.groups[0], row.groups[0]);
    EXPECT_EQ(played.groups[1], row.groups[1]);
    EXPECT_EQ(played.found, "");
    EXPECT_EQ(played.verdict.checked.size(), row.nodes.size());
  }
}

// x and y are new; a, b and c are in the world, with products of 10 ms.
TEST(NodeCheck, NewcomersOfARunningJob) {
  constexpr auto kAlone = NodeCheck::Way::kAlone;
  constexpr auto kOnce = NodeCheck::Way::kPairsOnce;
  struct {
    const char* what;
    NodeCheck::Way way;
    std::string others;
    std::vector<Round> rounds;
    std::string groups;
    std::string found;
  } const kRows[] = {
      {"both are fine", kAlone, "abc", {}, "x y", ""},
      {"alone in the world", kAlone, "", {}, "x y", ""},
      {"one hangs",
       kAlone,
       "abc",
       {{{"x", kSilent}}, {{"x", kSilent}}},
       "x y; x",
       "x"},
      {"it needs no other node",
       kAlone,
       "",
       {{{"x", kFails}}, {{"x", kFails}}},
       "x y; x",
       "x"},
      {"it fails once", kAlone, "abc", {{{"x", kFails}}, {}}, "x y; x", ""},
      {"slow",
       kAlone,
       "abc",
       {{{"x", Takes(30)}}, {{"x", Takes(30)}}},
       "x y; x",
       "x"},
      {"slow, but nobody to compare",
       kAlone,
       "",
       {{{"x", Takes(30)}}, {{"x", Takes(30)}}},
       "x y; x",
       ""},
      {"gone",
       kAlone,
       "abc",
       {{{"x", kGone}, {"y", kFails}}, {{"y", kFails}}},
       "x y; y",
       "y"},
      {"there are no sums to be slow",
       kAlone,
       "abc",
       {{{"x", Takes(10, 90)}}},
       "x y",
       ""},
      {"a pair is fine", kOnce, "abc", {}, "xy", ""},
      {"one round of pairs", kOnce, "abc", {{{"x", kFails}}}, "xy", "x"},
      {"both blame the pair",
       kOnce,
       "abc",
       {{{"x", kPeer}, {"y", kPeer}}},
       "xy",
       "x y"},
      {"it is not needed, so none is compared",
       kOnce,
       "",
       {{{"x", kFails}}},
       "xy",
       "x"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.what);
    std::vector<NodeToCheck> nodes = Nodes("xy" + row.others);
    for (size_t i = 2; i < nodes.size(); ++i) {
      nodes[i].checked = true;
      nodes[i].product = absl::Milliseconds(10);
    }
    NodeCheck check = Checker();
    const Played played = Play(check, nodes, row.rounds, 2, row.way);
    EXPECT_EQ(absl::StrJoin(played.groups, "; "), row.groups);
    EXPECT_EQ(played.found, row.found);
    EXPECT_EQ(check.alone(), row.way == kAlone);
    for (const auto& finding : played.verdict.findings) {
      EXPECT_EQ(finding.again, row.way == kOnce);
    }
    EXPECT_FALSE(check.exhausted());
  }
}

TEST(NodeCheck, TheLaunchersNodeStays) {
  NodeCheck check = Checker();
  std::vector<NodeToCheck> nodes = Nodes("abcd");
  nodes[0].launcher = true;
  EXPECT_EQ(Play(check, nodes, {{{"a", kFails}}, {{"a", kFails}}}, 2).found,
            "a(it is the launcher's own)");
}

// It is compared with the times that the others had.
TEST(NodeCheck, ANewcomerGetsPartnersThatHavePassed) {
  struct {
    const char* what;
    std::vector<Round> rounds;
    std::vector<std::string> groups;
    std::string found;
  } const kRows[] = {
      {"it is fine", {}, {"da"}, ""},
      {"it is slow",
       {{{"d", Takes(30)}}, {{"d", Takes(30)}}},
       {"da", "bd"},
       "d"},
      {"two partners do not reach it",
       {{{"d", kPeer}, {"a", kPeer}}, {{"d", kPeer}, {"b", kPeer}}},
       {"da", "bd"},
       "d"},
      {"its partner fails", {{{"d", kPeer}, {"a", kFails}}}, {"da", "bd"}, ""},
      {"its partner is slow now", {{{"a", Takes(90)}}}, {"da"}, ""},
  };
  for (const auto& row : kRows) {
    NodeCheck check = Checker();
    std::vector<NodeToCheck> nodes = Nodes("abcd");
    for (size_t i = 0; i < 3; ++i) {
      nodes[i].checked = true;
      nodes[i].product = absl::Milliseconds(10);
    }
    const Played played = Play(check, nodes, row.rounds, 1);
    EXPECT_EQ(played.groups, row.groups) << row.what;
    EXPECT_EQ(played.found, row.found) << row.what;
    ASSERT_EQ(played.verdict.checked.size(), 1u) << row.what;
    EXPECT_EQ(played.verdict.checked[0].node, "d") << row.what;
  }
}

TEST(NodeCheck, NothingIsCheckedWithoutNewNodesOrAKey) {
  NodeCheck check = Checker();
  std::vector<NodeToCheck> nodes = Nodes("ab");
  for (NodeToCheck& node : nodes) node.checked = true;
  EXPECT_TRUE(check.Open(nodes, NodeCheck::Way::kPairs, At(1)).empty());
  EXPECT_FALSE(check.under_way());
  EXPECT_FALSE(check.TakeVerdict(1).has_value());
  NodeCheck keyless;
  EXPECT_TRUE(keyless.Open(Nodes("ab"), NodeCheck::Way::kPairs, At(1)).empty());
  EXPECT_FALSE(keyless.under_way());
}

// Its partner would wait for it until its time is over.
TEST(NodeCheck, ANodeThatFailsEndsTheRoundForItsGroup) {
  NodeCheck check = Checker();
  const NodeCheck::Requests requests =
      check.Open(Nodes("ab"), NodeCheck::Way::kPairs, At(1));
  ASSERT_EQ(requests.size(), 1u);
  v1::GroupListening listening;
  listening.set_round(requests[0].second.round());
  EXPECT_EQ(check.TakeListening("a", listening, At(2)).size(), 1u);
  EXPECT_TRUE(check.Advance(At(2)).empty());
  EXPECT_TRUE(check.TakeChecked("b", Reported(kFails, listening.round())));
  EXPECT_FALSE(check.Advance(At(2)).empty());
}

// Otherwise nodes that hang could hold up a gathering under ever new names.
TEST(NodeCheck, TheChecksOfAGatheringHaveALimitInAll) {
  NodeCheck check = Checker();
  const std::vector<Round> silent = {{{"d", kSilent}}, {{"d", kSilent}}};
  EXPECT_EQ(Play(check, Nodes("abcd"), silent, 1).found, "d");
  EXPECT_FALSE(check.exhausted());
  EXPECT_EQ(Play(check, Nodes("abcd"), silent, 1).found, "d");
  EXPECT_TRUE(check.exhausted());
  check.Begin();
  EXPECT_FALSE(check.exhausted());
}

TEST(NodeCheck, AnswersOfAnotherRoundOrNodeDoNotCount) {
  NodeCheck check = Checker();
  const NodeCheck::Requests requests =
      check.Open(Nodes("ab"), NodeCheck::Way::kPairs, At(1));
  ASSERT_EQ(requests.size(), 1u);
  const uint64_t round = requests[0].second.round();
  EXPECT_FALSE(check.TakeChecked("a", Reported(Answer(), round + 1)));
  EXPECT_FALSE(check.TakeChecked("z", Reported(Answer(), round)));
  // b was not asked yet.
  EXPECT_FALSE(check.TakeChecked("b", Reported(Answer(), round)));
  EXPECT_TRUE(check.Advance(At(2)).empty());
  EXPECT_TRUE(check.under_way());
  check.Stop();
  EXPECT_FALSE(check.TakeVerdict(1).has_value());
  // A later check has other numbers.
  EXPECT_GT(
      check.Open(Nodes("ab"), NodeCheck::Way::kPairs, At(3))[0].second.round(),
      round);
}

}  // namespace
}  // namespace rollcall
