#include "daemon/core/network_plan/preflight.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/network_plan/comparison/differences.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {
namespace {

// Nodes a, b and c have the same facts.
class PreflightTest : public testing::Test {
 protected:
  PreflightTest() {
    for (const char* name : {"a", "b", "c"}) {
      Node& node = AddMember(membership_, name, -1);
      node.hello.set_command_digest(std::string(32, 'd'));
      v1::Facts& facts = *node.hello.mutable_facts();
      facts = FactsOf(name, "eth0=10.0.0.1/24 eth1=10.1.0.1/24");
      facts.mutable_interfaces(0)->set_mtu(9000);
      facts.mutable_interfaces(1)->set_mtu(1500);
      SetNccl(name, "2.28.9");
      interfaces_.push_back("eth0");
    }
  }
  void SetNccl(const std::string& name, const std::string& version) {
    membership_.At(name).hello.mutable_facts()->mutable_versions()->set_nccl(
        version);
  }
  Preflight::Verdict Judge(v1::Preflight mode) {
    std::vector<PlanNode> nodes;
    NetworkPlan plan;
    for (const char* name : {"a", "b", "c"}) {
      const Node& node = membership_.At(name);
      plan.nodes.emplace_back().interface = interfaces_[nodes.size()];
      nodes.push_back({name, &node.hello.facts(), "", node.hello.launcher()});
    }
    settings_.set_preflight(mode);
    return preflight_.Judge(nodes, plan, membership_, settings_);
  }
  // Returns the names of the facts: "NCCL version,command".
  static std::string Facts(const std::vector<v1::Difference>& differences) {
    return absl::StrJoin(differences, ",",
                         [](std::string* text, const v1::Difference& each) {
                           *text += each.fact();
                         });
  }
  static std::string Excluded(const Preflight::Verdict& verdict) {
    return absl::StrJoin(
        verdict.excluded, ",",
        [](std::string* text, const auto& each) { *text += each.first; });
  }

  Membership membership_;
  std::vector<std::string> interfaces_;
  v1::JobSettings settings_;
  Preflight preflight_;
};

TEST_F(PreflightTest, AVariableOfTheJobDiffersNowhere) {
  const auto set = [&](const char* node, const char* value) {
    v1::CommunicationVariable& variable = *membership_.At(node)
                                               .hello.mutable_facts()
                                               ->mutable_communication()
                                               ->add_variables();
    variable.set_name("NCCL_ALGO");
    variable.set_value(value);
  };
  set("a", "Ring");
  set("b", "Ring");
  set("c", "Tree");
  EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_WARN).fresh), "NCCL_ALGO");
  EXPECT_EQ(Excluded(Judge(v1::PREFLIGHT_STRICT)), "c");
  v1::JobVariable& variable = *settings_.add_environment();
  variable.set_name("NCCL_ALGO");
  variable.set_value("Ring");
  EXPECT_EQ(Excluded(Judge(v1::PREFLIGHT_STRICT)), "");
  EXPECT_EQ(Facts(preflight_.differences()), "");
}

TEST_F(PreflightTest, TheModeSaysWhatADifferenceDoes) {
  struct {
    v1::Preflight mode;
    std::string fresh;
    std::string excluded;
  } const kRows[] = {
      {v1::PREFLIGHT_OFF, "", ""},
      {v1::PREFLIGHT_UNSPECIFIED, "NCCL version", ""},
      {v1::PREFLIGHT_WARN, "NCCL version", ""},
      {v1::PREFLIGHT_STRICT, "NCCL version", "c"},
  };
  SetNccl("c", "2.21.5");
  for (const auto& row : kRows) {
    preflight_ = Preflight();
    const Preflight::Verdict verdict = Judge(row.mode);
    EXPECT_EQ(Facts(verdict.fresh), row.fresh) << row.mode;
    EXPECT_EQ(Excluded(verdict), row.excluded) << row.mode;
    EXPECT_EQ(Facts(preflight_.differences()), row.fresh) << row.mode;
    if (!verdict.excluded.empty()) {
      EXPECT_EQ(verdict.excluded[0].second, DifferenceText(verdict.fresh[0]));
    }
  }
}

TEST_F(PreflightTest, TheLaunchersNodeIsTheReference) {
  SetNccl("b", "2.21.5");
  membership_.At("b").hello.set_launcher(true);
  EXPECT_EQ(Excluded(Judge(v1::PREFLIGHT_STRICT)), "a,c");
  // Without the launcher's agent, the most common value is right, and two
  // equally large sides exclude no node.
  membership_.At("b").hello.set_launcher(false);
  SetNccl("b", "2.28.9");
  SetNccl("a", "2.21.5");
  EXPECT_EQ(Excluded(Judge(v1::PREFLIGHT_STRICT)), "a");
  SetNccl("c", "");
  EXPECT_EQ(Excluded(Judge(v1::PREFLIGHT_STRICT)), "");
}

TEST_F(PreflightTest, ComparesMoreThanFacts) {
  struct {
    const char* what;
    std::function<void(Node&, std::string& interface)> change;
    std::string fresh;
  } const kRows[] = {
      {"nothing", [](Node&, std::string&) {}, ""},
      {"the command",
       [](Node& node, std::string&) {
         node.hello.set_command_digest(std::string(32, 'e'));
       },
       "command"},
      {"the clock",
       [](Node& node, std::string&) { node.clock_offset = absl::Hours(1); },
       "clock"},
      {"the interface that its peers use",
       [](Node&, std::string& interface) { interface = "eth1"; },
       "interface MTU"},
  };
  for (Node* node : {&membership_.At("a"), &membership_.At("b")}) {
    node->clock_offset = absl::ZeroDuration();
  }
  const Node before = membership_.At("c");
  for (const auto& row : kRows) {
    membership_.At("c") = before;
    interfaces_[2] = "eth0";
    preflight_ = Preflight();
    row.change(membership_.At("c"), interfaces_[2]);
    EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_WARN).fresh), row.fresh) << row.what;
  }
}

TEST_F(PreflightTest, ADifferenceIsReportedOnce) {
  SetNccl("c", "2.21.5");
  EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_WARN).fresh), "NCCL version");
  EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_WARN).fresh), "");
  EXPECT_EQ(Facts(preflight_.differences()), "NCCL version");
  membership_.At("c").hello.set_command_digest(std::string(32, 'e'));
  EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_WARN).fresh), "command");
  EXPECT_EQ(Facts(preflight_.differences()), "NCCL version,command");
  // Another value of the same fact counts as another difference.
  SetNccl("c", "2.20.1");
  EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_WARN).fresh), "NCCL version");
}

TEST_F(PreflightTest, DifferencesAreKeptWhileANodeIsExcludedForThem) {
  for (const bool excluded : {true, false}) {
    SetNccl("c", "2.21.5");
    Judge(v1::PREFLIGHT_STRICT);
    // The next world leaves the node out. Here the same nodes stay, and have
    // the same facts.
    membership_.At("c").exclusion.differs = excluded;
    SetNccl("c", "2.28.9");
    EXPECT_EQ(Facts(Judge(v1::PREFLIGHT_STRICT).fresh), "");
    EXPECT_EQ(Facts(preflight_.differences()), excluded ? "NCCL version" : "");
  }
}

void SharesAnother(Membership& membership, Node& node) {
  for (const auto& [each, digest] :
       {std::pair(&membership.At("a"), 'a'), std::pair(&node, 'b')}) {
    v1::SameFile& folder = *each->hello.mutable_facts()->add_same_files();
    folder.set_path("/data/");
    folder.set_sha256(std::string(32, digest));
  }
}

TEST_F(PreflightTest, AStrictJobTakesNoNewcomerThatDiffers) {
  struct {
    const char* what;
    v1::Preflight mode;
    std::function<void(Membership&, Node& newcomer)> change;
    bool excluded;
  } const kRows[] = {
      {"alike", v1::PREFLIGHT_STRICT, [](Membership&, Node&) {}, false},
      {"its command differs", v1::PREFLIGHT_STRICT,
       [](Membership&, Node& node) { node.hello.set_command_digest("x"); },
       true},
      {"the same, with warnings alone", v1::PREFLIGHT_WARN,
       [](Membership&, Node& node) { node.hello.set_command_digest("x"); },
       false},
      {"its facts differ", v1::PREFLIGHT_STRICT,
       [](Membership&, Node& node) {
         node.hello.mutable_facts()->mutable_versions()->set_nccl("2.21.5");
       },
       true},
      {"it is excluded already", v1::PREFLIGHT_STRICT,
       [](Membership&, Node& node) {
         node.hello.set_command_digest("x");
         node.exclusion.differs = true;
       },
       false},
      {"the launcher's node", v1::PREFLIGHT_STRICT,
       [](Membership&, Node& node) {
         node.hello.set_command_digest("x");
         node.hello.set_launcher(true);
       },
       false},
      {"its clock", v1::PREFLIGHT_STRICT,
       [](Membership& membership, Node& node) {
         membership.At("a").clock_offset = absl::ZeroDuration();
         node.clock_offset = absl::Hours(1);
       },
       false},
      {"the members differ among themselves", v1::PREFLIGHT_STRICT,
       [](Membership& membership, Node& node) {
         membership.At("a").hello.set_command_digest("y");
         node.hello.set_command_digest("x");
       },
       false},
      {"another folder of --shared", v1::PREFLIGHT_WARN, SharesAnother, true},
      {"the same, but nothing is compared", v1::PREFLIGHT_OFF, SharesAnother,
       false},
      {"a member that is away is not compared", v1::PREFLIGHT_STRICT,
       [](Membership& membership, Node& node) {
         membership.At("a").hello.set_command_digest("y");
         membership.Disconnect(membership.At("a"));
         node.hello.set_command_digest("x");
       },
       true},
      {"nor is a spare", v1::PREFLIGHT_STRICT,
       [](Membership& membership, Node& node) {
         membership.At("a").hello.set_command_digest("y");
         membership.At("a").node_rank = -1;
         node.hello.set_command_digest("x");
       },
       true},
  };
  for (const auto& row : kRows) {
    Membership membership = membership_;
    membership.At("a").node_rank = 0;
    membership.At("b").node_rank = 1;
    v1::World world;
    world.set_generation(1);
    world.add_members()->set_node("a");
    world.add_members()->set_node("b");
    Node& newcomer = membership.At("c");
    row.change(membership, newcomer);
    v1::JobSettings settings;
    settings.set_preflight(row.mode);
    const std::optional<std::string> reason =
        Preflight().JudgeNewcomer(newcomer, membership, world, settings);
    EXPECT_EQ(reason.has_value(), row.excluded) << row.what;
    if (reason.has_value()) {
      EXPECT_NE(reason->find(" on c"), std::string::npos) << *reason;
    }
  }
}

TEST_F(PreflightTest, WhatTheMembersShareIsReadOncePerWorld) {
  membership_.At("a").node_rank = 0;
  membership_.At("b").node_rank = 1;
  v1::World world;
  world.set_generation(1);
  world.add_members()->set_node("a");
  world.add_members()->set_node("b");
  settings_.set_preflight(v1::PREFLIGHT_STRICT);
  Node& newcomer = membership_.At("c");
  const auto takes = [&] {
    return !preflight_.JudgeNewcomer(newcomer, membership_, world, settings_)
                .has_value();
  };
  EXPECT_TRUE(takes());
  newcomer.hello.set_command_digest("x");
  membership_.At("a").hello.set_command_digest("x");
  membership_.At("b").hello.set_command_digest("x");
  EXPECT_FALSE(takes());
  world.set_generation(2);
  EXPECT_TRUE(takes());
  // Not while members are away.
  world.set_generation(3);
  membership_.Disconnect(membership_.At("b"));
  EXPECT_TRUE(takes());
  newcomer.hello.set_command_digest("y");
  membership_.At("a").hello.set_command_digest("y");
  EXPECT_TRUE(takes());
}

}  // namespace
}  // namespace rollcall
