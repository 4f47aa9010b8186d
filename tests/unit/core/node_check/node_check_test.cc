#include "daemon/core/node_check/node_check.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// How a node answers in one round.
struct Answer {
  enum class Kind { kTimes, kFails, kBlamesPeer, kSilent, kGone };
  Kind kind = Kind::kTimes;
  double product_ms = 10;
  double all_reduce_ms = 5;
};
Answer Takes(double product_ms, double all_reduce_ms = 5) {
  return {Answer::Kind::kTimes, product_ms, all_reduce_ms};
}
const Answer kFails{Answer::Kind::kFails};
const Answer kPeer{Answer::Kind::kBlamesPeer};
const Answer kSilent{Answer::Kind::kSilent};
const Answer kGone{Answer::Kind::kGone};
// Nodes that are missing answer as Answer().
using Round = std::map<std::string, Answer>;

std::string Draw(uint64_t round, const std::string& word) {
  std::string secret = absl::StrCat(round, word);
  secret.resize(Limits::probe_bytes);
  return secret;
}

NodeCheck Checker() {
  NodeCheck check;
  check.UseKey(Draw);
  return check;
}

std::vector<NodeToCheck> Nodes(const std::string& names) {
  std::vector<NodeToCheck> nodes;
  for (const char name : names) {
    nodes.push_back(
        {std::string(1, name), absl::StrCat("10.0.0.", nodes.size())});
  }
  return nodes;
}

v1::GroupChecked Said(const Answer& answer, uint64_t round) {
  v1::GroupChecked said;
  said.set_round(round);
  if (answer.kind == Answer::Kind::kTimes) {
    ToProto(absl::Milliseconds(answer.product_ms), said.mutable_product());
    ToProto(absl::Milliseconds(answer.all_reduce_ms),
            said.mutable_all_reduce());
  } else {
    said.set_error("broken");
    said.set_peer(answer.kind == Answer::Kind::kBlamesPeer);
  }
  return said;
}

// A check that is played to its end: "ab cd" for the groups of each round, and
// what was found.
struct Played {
  std::vector<std::string> groups;
  std::string found;  // "c d(why it stays)"
  NodeCheckVerdict verdict;
};

Played Play(NodeCheck& check, const std::vector<NodeToCheck>& nodes,
            const std::vector<Round>& rounds, size_t spare,
            NodeCheck::Way way = NodeCheck::Way::kPairs) {
  std::map<std::string, std::string> name_of;
  for (const NodeToCheck& node : nodes) name_of[node.address] = node.node;
  Played played;
  absl::Time now = At(1);
  NodeCheck::Requests requests = check.Open(nodes, way, now);
  for (size_t round = 0; check.under_way(); ++round) {
    EXPECT_LT(round, 2u);
    std::vector<std::string> groups;
    const auto answer_of = [&](const std::string& node) {
      if (round >= rounds.size()) return Answer();
      const auto at = rounds[round].find(node);
      return at == rounds[round].end() ? Answer() : at->second;
    };
    // A node of the group has failed.
    bool over = false;
    const auto give = [&](const std::string& node, uint64_t number) {
      const Answer answer = answer_of(node);
      if (answer.kind == Answer::Kind::kGone) return check.Gone(node);
      if (answer.kind == Answer::Kind::kSilent) return;
      EXPECT_EQ(check.TakeChecked(node, Said(answer, number)), !over) << node;
      EXPECT_FALSE(check.TakeChecked(node, Said(answer, number))) << node;
      over = over || answer.kind == Answer::Kind::kFails;
    };
    for (const auto& [first, request] : requests) {
      over = false;
      std::string group;
      for (const std::string& address : request.addresses()) {
        group += name_of.at(address);
      }
      groups.push_back(group);
      EXPECT_EQ(request.port(), 0u);
      EXPECT_EQ(request.secret().size(), Limits::probe_bytes);
      const Answer::Kind kind = answer_of(first).kind;
      if (group.size() > 1 &&
          (kind == Answer::Kind::kTimes || kind == Answer::Kind::kBlamesPeer)) {
        v1::GroupListening listening;
        listening.set_round(request.round());
        listening.set_port(4000);
        // Only the first node may say this, and only once.
        EXPECT_TRUE(
            check.TakeListening(group.substr(1, 1), listening, now).empty());
        const NodeCheck::Requests others =
            check.TakeListening(first, listening, now);
        EXPECT_EQ(others.size() + 1, group.size());
        EXPECT_TRUE(check.TakeListening(first, listening, now).empty());
        for (const auto& [other, second] : others) {
          EXPECT_EQ(second.port(), 4000u);
          EXPECT_EQ(second.secret(), request.secret());
          give(other, second.round());
        }
      }
      give(first, request.round());
    }
    played.groups.push_back(absl::StrJoin(groups, " "));
    requests = check.Advance(now);
    if (check.under_way() && requests.empty()) {
      now = check.until();
      requests = check.Advance(now);
    }
  }
  std::optional<NodeCheckVerdict> verdict = check.TakeVerdict(spare);
  EXPECT_FALSE(check.TakeVerdict(spare).has_value());
  if (!verdict.has_value()) {
    played.found = "no verdict";
    return played;
  }
  played.found = absl::StrJoin(
      verdict->findings, " ",
      [](std::string* to, const NodeCheckVerdict::Finding& finding) {
        absl::StrAppend(to, finding.node);
        if (!finding.stays.empty())
          absl::StrAppend(to, "(", finding.stays, ")");
      });
  played.verdict = *std::move(verdict);
  return played;
}

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
  EXPECT_TRUE(check.TakeChecked("b", Said(kFails, listening.round())));
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
  EXPECT_FALSE(check.TakeChecked("a", Said(Answer(), round + 1)));
  EXPECT_FALSE(check.TakeChecked("z", Said(Answer(), round)));
  // b was not asked yet.
  EXPECT_FALSE(check.TakeChecked("b", Said(Answer(), round)));
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
