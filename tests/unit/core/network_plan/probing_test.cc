#include "daemon/core/network_plan/probing/probing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

std::string Draw(uint64_t round, const std::string& word) {
  std::string secret = absl::StrCat(round, "/", std::hash<std::string>()(word));
  secret.resize(Limits::probe_bytes, 'x');
  return secret;
}

ProbeNode NodeOf(size_t i, uint64_t incarnation = 1) {
  return {
      absl::StrCat("n", i), incarnation, {absl::StrCat("10.0.0.", i)}, 40000};
}

std::vector<ProbeNode> Nodes(size_t count) {
  std::vector<ProbeNode> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(NodeOf(i));
  return nodes;
}

using Asked = std::map<std::string, v1::Probe>;

Asked Begin(Probing& probing, const std::vector<ProbeNode>& nodes) {
  Asked asked;
  for (auto& [name, probe] :
       probing.Begin(nodes, Draw, absl::UnixEpoch(), absl::Seconds(2))) {
    asked[name] = probe;
  }
  return asked;
}

v1::Probed AnswerTo(const Asked& asked, const std::string& node) {
  v1::Probed probed;
  probed.set_probe(asked.at(node).probe());
  for (const v1::ProbeTarget& target : asked.at(node).targets()) {
    v1::ProbeResult& result = *probed.add_results();
    result.set_node(target.node());
    result.set_address(target.addresses(0));
    result.set_answer(AnswerAt(asked.at(target.node()), target.addresses(0)));
  }
  return probed;
}

TEST(Probing, AllPairsOfASmallWorld) {
  for (const size_t count : {size_t{2}, size_t{3}, size_t{64}}) {
    Probing probing;
    const Asked asked = Begin(probing, Nodes(count));
    ASSERT_EQ(asked.size(), count);
    for (const auto& [name, probe] : asked) {
      EXPECT_EQ(probe.targets_size(), static_cast<int>(count) - 1) << name;
    }
  }
}

TEST(Probing, NeighboursAndSomeByChanceInALargeOne) {
  for (const size_t count : {size_t{65}, size_t{1024}}) {
    const std::vector<ProbeNode> nodes = Nodes(count);
    Probing probing;
    const Asked asked = Begin(probing, nodes);
    ASSERT_EQ(asked.size(), count);
    size_t pairs = 0;
    for (size_t i = 0; i < count; ++i) {
      std::set<std::string> targets;
      for (const auto& target : asked.at(nodes[i].node).targets()) {
        EXPECT_NE(target.node(), nodes[i].node);
        EXPECT_TRUE(targets.insert(target.node()).second);
      }
      pairs += targets.size();
      EXPECT_TRUE(targets.contains(nodes[(i + 1) % count].node));
      EXPECT_TRUE(targets.contains(nodes[(i + count - 1) % count].node));
      EXPECT_LE(targets.size(), Limits::probe_targets_max);
    }
    // Each node probes two neighbours and log2 N others, in both directions.
    EXPECT_GT(pairs, count * 10);
    EXPECT_LT(pairs, count * 32);
  }
}

TEST(Probing, ALargeRoundTakesLonger) {
  const struct {
    size_t nodes;
    double seconds;
  } kRows[] = {{2, 2}, {64, 2}, {65, 2.065}, {1024, 3.024}};
  for (const auto& row : kRows) {
    Probing probing;
    Begin(probing, Nodes(row.nodes));
    EXPECT_EQ(probing.until(), absl::UnixEpoch() + absl::Seconds(row.seconds))
        << row.nodes;
  }
}

TEST(Probing, WhileReportsComeALargeRoundLasts) {
  const struct {
    size_t nodes;
    double at;  // When a report comes.
    double until;
  } kRows[] = {
      // The report comes before the reports of the others are due.
      {65, 0.01, 2.065},
      {65, 1, 3},
      {65, 2.9, 4.9},
      {65, 4.8, 6.8},
      {65, 6.7, 8.7},
      // The round lasts at most five times as long.
      {65, 8.6, 10.325},
      {65, 10.3, 10.325},
      {65, 10.4, 10.325},
      // A small round is not extended.
      {64, 0, 2},
      {64, 1, 2},
  };
  for (const size_t count : {size_t{65}, size_t{64}}) {
    Probing probing;
    const Asked asked = Begin(probing, Nodes(count));
    size_t node = 0;
    for (const auto& row : kRows) {
      if (row.nodes != count) continue;
      const std::string name = absl::StrCat("n", node++);
      probing.Take(name, AnswerTo(asked, name),
                   absl::UnixEpoch() + absl::Seconds(row.at));
      EXPECT_EQ(probing.until(), absl::UnixEpoch() + absl::Seconds(row.until))
          << count << " " << row.at;
    }
  }
}

TEST(Probing, ALateReportReopensALargeRoundAlone) {
  for (const size_t count : {size_t{64}, size_t{65}}) {
    Probing probing;
    const Asked asked = Begin(probing, Nodes(count));
    const absl::Time end = probing.until();
    EXPECT_TRUE(probing.IsSilent("n1", end));
    probing.Take("n0", AnswerTo(asked, "n0"), end);
    EXPECT_FALSE(probing.IsSilent("n0", end));
    EXPECT_EQ(probing.IsSilent("n1", end), count == 64) << count;
  }
}

TEST(Probing, NobodyIsSilentBeforeTheRoundEnds) {
  using Names = std::set<std::string>;
  Probing probing;
  const Asked asked = Begin(probing, Nodes(3));
  probing.Take("n1", AnswerTo(asked, "n1"), absl::UnixEpoch());
  const absl::Time end = probing.until();
  EXPECT_EQ(probing.Silent(end - absl::Milliseconds(1)), Names());
  EXPECT_EQ(probing.Silent(end), (Names{"n0", "n2"}));
}

TEST(Probing, OnlyAnswersThatTheTargetWasGivenCount) {
  const std::vector<ProbeNode> nodes = Nodes(3);
  const struct {
    const char* name;
    void (*change)(v1::Probed&, const Asked&);
    bool reached;
  } kRows[] = {
      {"as it should", [](v1::Probed&, const Asked&) {}, true},
      {"another node's answer",
       [](v1::Probed& probed, const Asked& asked) {
         probed.mutable_results(0)->set_answer(
             asked.at("n2").answers(0).answer());
       },
       false},
      {"the prober's own answer",
       [](v1::Probed& probed, const Asked& asked) {
         probed.mutable_results(0)->set_answer(
             asked.at("n0").answers(0).answer());
       },
       false},
      {"no answer",
       [](v1::Probed& probed, const Asked&) {
         probed.mutable_results(0)->clear_answer();
       },
       false},
      {"an address that was not asked for",
       [](v1::Probed& probed, const Asked&) {
         probed.mutable_results(0)->set_address("10.9.9.9");
       },
       false},
      {"nothing",
       [](v1::Probed& probed, const Asked&) { probed.clear_results(); }, false},
      {"an older round",
       [](v1::Probed& probed, const Asked&) { probed.set_probe(0); }, false},
  };
  for (const auto& row : kRows) {
    Probing probing;
    const Asked asked = Begin(probing, nodes);
    v1::Probed probed = AnswerTo(asked, "n0");
    ASSERT_EQ(probed.results(0).node(), "n1");
    row.change(probed, asked);
    probing.Take("n0", probed, absl::UnixEpoch());
    const ProbeReport& report = probing.Of("n1")->at("n0");
    const bool reached =
        std::any_of(report.found.begin(), report.found.end(),
                    [](const auto& found) { return found.second.reached; });
    EXPECT_EQ(reached, row.reached) << row.name;
  }
}

TEST(Probing, AReportCountsOnceAndForWhomItWasAsked) {
  Probing probing;
  const std::vector<ProbeNode> nodes = Nodes(2);
  const Asked asked = Begin(probing, nodes);
  EXPECT_TRUE(probing.Open(absl::UnixEpoch()));
  EXPECT_FALSE(probing.Open(absl::UnixEpoch() + absl::Seconds(2)));
  probing.Take("n7", AnswerTo(asked, "n0"), absl::UnixEpoch());
  EXPECT_TRUE(probing.Awaits("n0"));
  v1::Probed nothing;
  nothing.set_probe(asked.at("n0").probe());
  probing.Take("n0", nothing, absl::UnixEpoch());
  probing.Take("n0", AnswerTo(asked, "n0"), absl::UnixEpoch());
  EXPECT_FALSE(probing.Awaits("n0"));
  EXPECT_TRUE(probing.Of("n1")->at("n0").found.empty());
  probing.Take("n1", AnswerTo(asked, "n1"), absl::UnixEpoch());
  EXPECT_FALSE(probing.Open(absl::UnixEpoch()));
}

TEST(Probing, ANewLifeIsProbedAgainAndLeavesNothingBehind) {
  Probing probing;
  std::vector<ProbeNode> nodes = Nodes(3);
  const Asked first = Begin(probing, nodes);
  for (const ProbeNode& node : nodes) {
    probing.Take(node.node, AnswerTo(first, node.node), absl::UnixEpoch());
  }
  EXPECT_FALSE(probing.Needed(nodes));
  nodes[2] = NodeOf(2, 7);
  EXPECT_TRUE(probing.Needed(nodes));
  const Asked second = Begin(probing, nodes);
  EXPECT_EQ(second.at("n0").targets_size(), 1);
  EXPECT_EQ(second.at("n2").targets_size(), 2);
  EXPECT_FALSE(probing.Of("n2")->at("n0").answered);
  // This answer belongs to the first round, in which n1 had its previous
  // incarnation.
  probing.Take("n0", AnswerTo(first, "n0"), absl::UnixEpoch());
  EXPECT_TRUE(probing.Awaits("n0"));
  probing.Forget("n1");
  EXPECT_EQ(probing.Of("n1"), nullptr);
  EXPECT_FALSE(probing.Of("n0")->contains("n1"));
}

// In a large world, a node that no prober has reported on is probed again.
TEST(Probing, WhomNobodyHasProbedIsProbed) {
  std::vector<ProbeNode> nodes = Nodes(100);
  Probing probing;
  const Asked first = Begin(probing, nodes);
  for (const ProbeNode& node : nodes) {
    probing.Take(node.node, AnswerTo(first, node.node), absl::UnixEpoch());
  }
  nodes.push_back(NodeOf(100));
  const Asked second = Begin(probing, nodes);
  EXPECT_LT(second.size(), 30u);
  for (const auto& [name, probe] : second) probing.Excuse(name);
  EXPECT_EQ(probing.Of("n100"), nullptr);
  EXPECT_TRUE(probing.Needed(nodes));
}

TEST(Probing, NodesThatAnswerNoProbesTakeNoPart) {
  std::vector<ProbeNode> nodes = Nodes(3);
  nodes[0].port = 0;
  nodes[1].addresses.clear();
  Probing probing;
  EXPECT_FALSE(probing.Needed(nodes));
  nodes.push_back(NodeOf(3));
  const Asked asked = Begin(probing, nodes);
  EXPECT_EQ(asked.size(), 2u);
}

TEST(Probing, AddressesBeyondTheBoundAreLeftOut) {
  std::vector<ProbeNode> nodes = Nodes(2);
  for (int i = 0; i < 20; ++i) {
    nodes[0].addresses.push_back(absl::StrCat("10.1.0.", i));
  }
  Probing probing;
  const Asked asked = Begin(probing, nodes);
  EXPECT_EQ(asked.at("n1").targets(0).addresses_size(),
            static_cast<int>(Limits::probe_addresses_max));
}

// A round of all pairs asks for all pairs that were probed before, and no
// others, in a small and in a large world. So the number of a node's probers
// does not grow with each round.
TEST(Probing, AllIsAskedAgain) {
  for (const size_t count : {size_t{3}, size_t{100}}) {
    const std::vector<ProbeNode> nodes = Nodes(count);
    Probing probing;
    const Asked first = Begin(probing, nodes);
    for (const ProbeNode& node : nodes) {
      probing.Take(node.node, AnswerTo(first, node.node), absl::UnixEpoch());
    }
    Asked second;
    for (auto& [name, probe] :
         probing.Begin(nodes, Draw, absl::UnixEpoch(), absl::Seconds(2),
                       Probing::Pairs::kAll)) {
      second[name] = probe;
    }
    ASSERT_EQ(second.size(), count);
    for (const ProbeNode& node : nodes) {
      EXPECT_EQ(second.at(node.node).targets_size(),
                first.at(node.node).targets_size());
      EXPECT_NE(second.at(node.node).answers(0).answer(),
                first.at(node.node).answers(0).answer());
    }
  }
}

TEST(Probing, WhatIsKnownStandsUntilItsProberReports) {
  const std::vector<ProbeNode> nodes = Nodes(3);
  Probing probing;
  const Asked first = Begin(probing, nodes);
  for (const ProbeNode& node : nodes) {
    probing.Take(node.node, AnswerTo(first, node.node), absl::UnixEpoch());
  }
  probing.Begin(nodes, Draw, absl::UnixEpoch(), absl::Seconds(2),
                Probing::Pairs::kAll);
  const auto reached = [&](const char* prober) {
    const ProbeReport& report = probing.Of("n2")->at(prober);
    return report.answered && !report.found.empty() &&
           report.found.begin()->second.reached;
  };
  EXPECT_TRUE(reached("n0"));
  // A report of the previous round does not answer this one.
  probing.Take("n0", AnswerTo(first, "n0"), absl::UnixEpoch());
  EXPECT_TRUE(probing.Awaits("n0"));
  v1::Probed nothing;
  nothing.set_probe(2);
  probing.Take("n0", nothing, absl::UnixEpoch());
  EXPECT_FALSE(reached("n0"));
  EXPECT_TRUE(reached("n1"));
  probing.Excuse("n1");
  EXPECT_FALSE(probing.Awaits("n1"));
  EXPECT_TRUE(reached("n1"));
  EXPECT_FALSE(probing.Needed(nodes));
}

// The daemon no longer waits for this node, so pairs that the node never
// reported do not count.
TEST(Probing, WhoIsExcusedIsAskedAgainWhereNothingIsKnown) {
  const std::vector<ProbeNode> nodes = Nodes(3);
  Probing probing;
  const Asked asked = Begin(probing, nodes);
  probing.Take("n0", AnswerTo(asked, "n0"), absl::UnixEpoch());
  probing.Excuse("n1");
  EXPECT_FALSE(probing.Of("n0")->contains("n1"));
  EXPECT_TRUE(probing.Of("n0")->contains("n2"));
  EXPECT_TRUE(probing.Needed(nodes));
}

TEST(Probing, SilenceOutlastsARoundOfOthers) {
  Probing probing;
  const std::vector<ProbeNode> nodes = Nodes(4);
  const absl::Time at = absl::UnixEpoch();
  const Asked first = Begin(probing, {nodes[0], nodes[1], nodes[2]});
  probing.Take("n0", AnswerTo(first, "n0"), absl::UnixEpoch());
  probing.Take("n1", AnswerTo(first, "n1"), absl::UnixEpoch());
  EXPECT_FALSE(probing.IsSilent("n2", at));
  EXPECT_TRUE(probing.IsSilent("n2", at + absl::Seconds(2)));
  Begin(probing, {nodes[0], nodes[1], nodes[3]});
  EXPECT_TRUE(probing.IsSilent("n2", at));
  EXPECT_FALSE(probing.IsSilent("n3", at));
  EXPECT_EQ(probing.Unheard(), (std::set<std::string>{"n0", "n1", "n2", "n3"}));
  // The report comes too late to count, but its node is no longer silent.
  probing.Take("n2", AnswerTo(first, "n2"), absl::UnixEpoch());
  EXPECT_FALSE(probing.IsSilent("n2", at));
  EXPECT_FALSE(probing.Of("n0")->contains("n2"));
  // A node that is asked again is awaited.
  Begin(probing, nodes);
  Begin(probing, {nodes[0], nodes[1]});
  Begin(probing, nodes);
  EXPECT_FALSE(probing.IsSilent("n3", at));
  EXPECT_TRUE(probing.Awaits("n3"));
}

TEST(Probing, TheAnswerOfOneAddressSaysNothingOfAnother) {
  std::vector<ProbeNode> nodes = Nodes(2);
  nodes[1].addresses.push_back("192.0.2.1");
  for (const bool translated : {false, true}) {
    if (translated) nodes[1].translated = "192.0.2.1";
    Probing probing;
    const Asked asked = Begin(probing, nodes);
    v1::Probed probed = AnswerTo(asked, "n0");
    probed.mutable_results(0)->set_address("192.0.2.1");
    probing.Take("n0", probed, absl::UnixEpoch());
    const ProbeFinding& found =
        probing.Of("n1")->at("n0").found.at("192.0.2.1");
    EXPECT_EQ(found.reached, translated);
  }
}

// The error is too long by a part of a character of several bytes.
TEST(Probing, AnErrorIsCutBetweenCharacters) {
  Probing probing;
  const Asked asked = Begin(probing, Nodes(2));
  v1::Probed probed = AnswerTo(asked, "n0");
  const std::string most(Limits::probe_error_bytes_max - 1, 'a');
  probed.mutable_results(0)->clear_answer();
  probed.mutable_results(0)->set_error(most + "\u00e9");
  probing.Take("n0", probed, absl::UnixEpoch());
  EXPECT_EQ(probing.Of("n1")->at("n0").found.at("10.0.0.1").error, most);
}

// In a large world, all probers of a node but one have left.
TEST(Probing, WhatOneProberIsLeftToSayIsNotEnough) {
  std::vector<ProbeNode> nodes = Nodes(100);
  Probing probing;
  const Asked asked = Begin(probing, nodes);
  for (const ProbeNode& node : nodes) {
    probing.Take(node.node, AnswerTo(asked, node.node), absl::UnixEpoch());
  }
  EXPECT_FALSE(probing.Needed(nodes));
  std::vector<std::string> probers;
  for (const auto& [name, report] : *probing.Of("n7")) probers.push_back(name);
  ASSERT_GT(probers.size(), 4u);
  probers.pop_back();
  for (const std::string& name : probers) {
    probing.Forget(name);
    std::erase_if(nodes,
                  [&](const ProbeNode& node) { return node.node == name; });
  }
  EXPECT_TRUE(probing.Needed(nodes));
}

}  // namespace
}  // namespace rollcall
