// What a node check finds, from the answers of both rounds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/core/node_check/played_check.h"

namespace rollcall {
namespace {

TEST(NodeCheck, Verdicts) {
  struct {
    const char* what;
    std::string nodes;
    std::vector<Round> rounds;
    size_t spare;
    int rounds_run;
    std::string found;
  } const kRows[] = {
      {"all are fine", "abcd", {}, 1, 1, ""},
      {"slow twice",
       "abcd",
       {{{"d", Takes(30)}}, {{"d", Takes(31)}}},
       1,
       2,
       "d"},
      {"slow once", "abcd", {{{"d", Takes(30)}}, {}}, 1, 2, ""},
      {"almost half as fast", "abcd", {{{"d", Takes(17)}}}, 1, 1, ""},
      {"half as fast",
       "abcd",
       {{{"d", Takes(19)}}, {{"d", Takes(18)}}},
       1,
       2,
       "d"},
      {"fails twice", "abcd", {{{"b", kFails}}, {{"b", kFails}}}, 1, 2, "b"},
      {"fails, then is slow",
       "abcd",
       {{{"b", kFails}}, {{"b", Takes(40)}}},
       1,
       2,
       "b"},
      {"fails once", "abcd", {{{"b", kFails}}, {}}, 1, 2, ""},
      {"never answers",
       "abcd",
       {{{"a", kSilent}}, {{"a", kSilent}}},
       1,
       2,
       "a"},
      {"its partner sees it fail",
       "abcd",
       {{{"a", kPeer}, {"b", kFails}},
        {{"b", kFails}, {"a", kPeer}, {"c", kPeer}, {"d", kPeer}}},
       1,
       2,
       "b"},
      {"a cable: both ends of each pair blame the other",
       "abcd",
       {{{"a", kPeer}, {"b", kPeer}},
        {{"b", kPeer}, {"c", kPeer}, {"d", kPeer}, {"a", Takes(10)}}},
       1,
       2,
       "b"},
      {"a slow link in two pairs",
       "abcdef",
       {{{"a", Takes(10, 50)}, {"b", Takes(10, 50)}},
        {{"b", Takes(10, 50)}, {"e", Takes(10, 50)}}},
       1,
       2,
       "b"},
      {"another partner is slow each time",
       "abcdef",
       {{{"a", Takes(10, 50)}, {"b", Takes(30, 50)}},
        {{"a", Takes(10, 50)}, {"f", Takes(30, 50)}}},
       1,
       2,
       ""},
      {"the clock of one node alone",
       "abcdef",
       {{{"a", Takes(10, 50)}}},
       1,
       1,
       ""},
      {"a slow link in one pair",
       "abcdef",
       {{{"a", Takes(10, 50)}, {"b", Takes(10, 50)}}, {}},
       1,
       2,
       ""},
      {"two partners that are slow themselves",
       "abcdef",
       {{{"a", Takes(10, 50)}, {"b", Takes(90, 50)}},
        {{"b", Takes(90, 50)}, {"c", Takes(10, 50)}}},
       2,
       2,
       "b"},
      {"no node to spare",
       "abcd",
       {{{"d", Takes(30)}}, {{"d", Takes(30)}}},
       0,
       2,
       "d(too few other nodes are there)"},
      {"one to spare of two: who fails comes first",
       "abcdef",
       {{{"d", Takes(30)}, {"b", kFails}}, {{"d", Takes(30)}, {"b", kFails}}},
       1,
       2,
       "b d(too few other nodes are there)"},
      {"the slowest comes first",
       "abcdef",
       {{{"d", Takes(30)}, {"b", Takes(40)}},
        {{"d", Takes(30)}, {"b", Takes(40)}}},
       1,
       2,
       "b d(too few other nodes are there)"},
      {"more than half",
       "abcd",
       {{{"a", kFails}, {"b", kFails}, {"c", kFails}},
        {{"a", kFails}, {"b", kFails}, {"c", kFails}}},
       4,
       2,
       "a(more than half of the nodes failed or were slow) "
       "b(more than half of the nodes failed or were slow) "
       "c(more than half of the nodes failed or were slow)"},
      // b is not asked in the first round, and a or b in the second.
      {"both of a pair fail",
       "abcd",
       {{{"a", kFails}, {"b", kFails}}, {{"a", kFails}, {"b", kFails}}},
       2,
       2,
       "a b"},
      {"both of a pair fail, and no other has a time",
       "ab",
       {{{"a", kFails}, {"b", kFails}}, {{"a", kFails}, {"b", kFails}}},
       2,
       2,
       "a(fewer than 3 nodes can be compared) "
       "b(fewer than 3 nodes can be compared)"},
      {"two of five claim to be fast, one of them gives no time",
       "abcde",
       {{{"a", Takes(0.001)}, {"c", Takes(0.001)}, {"b", kPeer}},
        {{"a", Takes(0.001)}, {"c", Takes(0.001)}, {"b", kPeer}}},
       3,
       2,
       "b"},
      {"two nodes: one is named",
       "ab",
       {{{"b", Takes(30)}}, {{"b", Takes(30)}}},
       1,
       2,
       "b(fewer than 3 nodes can be compared)"},
      {"two nodes blame each other",
       "ab",
       {{{"a", kPeer}, {"b", kPeer}}, {{"a", kPeer}, {"b", kPeer}}},
       1,
       2,
       ""},
      {"three nodes",
       "abc",
       {{{"b", Takes(30)}}, {{"b", Takes(30)}}},
       1,
       2,
       "b"},
      {"gone in the first round",
       "abcd",
       {{{"b", kGone}, {"a", kPeer}}},
       1,
       2,
       ""},
      {"gone in the second round",
       "abcd",
       {{{"b", Takes(30)}}, {{"b", kGone}}},
       1,
       2,
       ""},
  };
  for (const auto& row : kRows) {
    NodeCheck check = Checker();
    const Played played = Play(check, Nodes(row.nodes), row.rounds, row.spare);
    EXPECT_EQ(played.found, row.found) << row.what;
    EXPECT_EQ(played.verdict.rounds, row.rounds_run) << row.what;
  }
}

TEST(NodeCheck, TheTextHasTheNumbersOfBothRounds) {
  NodeCheck check = Checker();
  Played played = Play(check, Nodes("abcd"),
                       {{{"d", Takes(30.5)}},
                        {{"d", Takes(31)}, {"a", Takes(11)}, {"b", Takes(11)}}},
                       1);
  ASSERT_EQ(played.verdict.findings.size(), 1u);
  EXPECT_EQ(played.verdict.findings[0].text,
            "found by --node-check: matrix product 30.5ms, median 10ms; then "
            "matrix product 31ms, median 11ms");
  check = Checker();
  played =
      Play(check, Nodes("abcd"),
           {{{"d", Takes(10, 50)}, {"c", Takes(10, 50)}}, {{"d", kFails}}}, 1);
  ASSERT_EQ(played.verdict.findings.size(), 1u);
  EXPECT_EQ(played.verdict.findings[0].text,
            "found by --node-check: all-reduce with c 50ms, median 5ms; then "
            "broken");
}

}  // namespace
}  // namespace rollcall
