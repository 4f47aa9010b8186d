// Vetting: who is probed or checked next, who is left out, and why.
#include "daemon/core/vetting/vetting.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"
#include "tests/unit/core/nodes.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// Nodes a, b, c and d on machines of their own. A world needs two.
struct FourNodes {
  FourNodes() {
    settings.set_nodes_min(2);
    settings.set_nodes_max(4);
    settings.set_node_check(true);
    vetting.UseKey([](uint64_t round, const std::string& word) {
      std::string secret =
          absl::StrCat(round, "/", std::hash<std::string>()(word));
      secret.resize(Limits::probe_bytes, 'x');
      return secret;
    });
    for (const char* name : {"a", "b", "c", "d"}) {
      Node& node = AddNode(membership, name);
      node.hello.set_checks_groups(true);
      node.observed_address = absl::StrCat("10.0.0.", *name - 'a' + 1);
      v1::Facts& facts = *node.hello.mutable_facts();
      facts =
          FactsOf(name, absl::StrCat("eth0=", node.observed_address, "/24"));
      facts.set_probe_port(40000);
    }
  }

  Vetting::View View() const {
    return {membership, settings,   limits,   At(at),
            gathering,  !gathering, isolated, ranks_wait};
  }
  Node& NodeOf(const char* name) { return membership.At(name); }

  std::vector<PlanNode> Plan(const std::string& names) const {
    std::vector<Seated> seated;
    for (const char name : names) {
      seated.push_back(
          {std::string(1, name), static_cast<uint32_t>(seated.size())});
    }
    return vetting.PlanNodes(seated, View());
  }
  static NetworkPlan Planned(const std::vector<PlanNode>& nodes) {
    NetworkPlan plan;
    for (const PlanNode& node : nodes) {
      plan.nodes.emplace_back().address = node.observed_address;
    }
    return plan;
  }
  std::string Check(const std::string& names) {
    const std::vector<PlanNode> nodes = Plan(names);
    return Told(vetting.Check(nodes, Planned(nodes), View()));
  }
  // The node's answer in the check under way: it has failed, or passed.
  std::string Answer(const char* name, bool passes) {
    v1::AgentMessage message;
    message.mutable_group_checked()->set_round(round[name]);
    if (!passes) message.mutable_group_checked()->set_error("broken");
    const std::string told =
        Told(vetting.TakeGroupMessage(NodeOf(name), message, View()));
    return absl::StrCat(told, "| ", Told(vetting.Advance(View())));
  }

  // "send a; warning a ...; leave out b: ...; wait".
  std::string Told(const Vetting::Decision& decision) {
    using Kind = Vetting::Act::Kind;
    std::vector<std::string> told;
    for (const Vetting::Act& act : decision.acts) {
      switch (act.kind) {
        case Kind::kSend:
          round[act.node] = act.message.group_check().round();
          told.push_back(absl::StrCat("send ", act.node));
          break;
        case Kind::kSay: {
          // Of the job's lines only the event, of a node's lines all.
          const std::vector<std::string> words =
              absl::StrSplit(act.text, absl::MaxSplits(' ', 1));
          told.push_back(act.node.empty() ? words[0] : act.text);
          break;
        }
        case Kind::kLeaveOut:
          told.push_back(absl::StrCat("leave out ", act.node, ": ", act.text));
          break;
        case Kind::kDiffers:
          told.push_back(absl::StrCat("differs ", act.node, ": ", act.text));
          break;
        case Kind::kQuarantine:
          told.push_back(absl::StrCat("quarantine ", act.node));
          break;
        case Kind::kExplain:
          told.push_back(absl::StrCat("explain ", act.node));
          break;
        case Kind::kUnreached:
          told.push_back(absl::StrCat("unreached ", act.node, ": ", act.text));
          break;
        case Kind::kReached:
          told.push_back(absl::StrCat("reached ", act.node));
          break;
        case Kind::kPassed:
          told.push_back(absl::StrCat("passed ", act.node));
          break;
        case Kind::kGrow:
          told.push_back("grow");
          break;
      }
    }
    if (decision.next == Vetting::Decision::Next::kWait) told.push_back("wait");
    if (decision.next == Vetting::Decision::Next::kWithout) {
      told.push_back("without");
    }
    return absl::StrJoin(told, "; ");
  }

  Limits limits;
  v1::JobSettings settings;
  Membership membership;
  Vetting vetting;
  std::map<std::string, uint64_t> round;
  double at = 1;
  bool gathering = true;
  bool isolated = false;
  bool ranks_wait = false;
};
class VettingTest : public testing::Test, public FourNodes {};

TEST_F(VettingTest, NodesThatShareAWorldForTheFirstTimeAreProbed) {
  const auto probe = [&] {
    return Told(vetting.Probe(Plan("ab"), Probing::Pairs::kUnknown, View()));
  };
  EXPECT_EQ(probe(), "event=probe; send a; send b; wait");
  EXPECT_EQ(probe(), "wait");
  EXPECT_TRUE(vetting.UnderWay(At(at)));
  EXPECT_TRUE(vetting.Awaits("a"));
  EXPECT_FALSE(vetting.Awaits("c"));
}

TEST_F(VettingTest, NodesWithoutWhichAPlanIsPossibleAreLeftOut) {
  const struct {
    const char* what;
    std::vector<std::string> without;
    bool launcher;
    const char* expect;
  } kRows[] = {
      {"none helps", {}, false, ""},
      {"b", {"b"}, false, "leave out b: no path; without"},
      {"the launcher's agent must have a seat", {"b"}, true, ""},
      {"b and c",
       {"b", "c"},
       false,
       "leave out b: no path; leave out c: no path; without"},
  };
  for (const auto& row : kRows) {
    NodeOf("b").hello.set_launcher(row.launcher);
    EXPECT_EQ(Told(vetting.NoPlan(Plan("abc"), row.without, "no path", View())),
              row.expect)
        << row.what;
  }
}

TEST_F(VettingTest, AStrictJobLeavesOutTheNodeThatDiffers) {
  for (const char* name : {"a", "b", "c"}) {
    NodeOf(name).hello.mutable_facts()->mutable_versions()->set_nccl(
        *name == 'c' ? "2.20.1" : "2.28.9");
  }
  const auto compare = [&](v1::Preflight mode) {
    settings.set_preflight(mode);
    const std::vector<PlanNode> nodes = Plan("abc");
    return Told(vetting.Compare(nodes, Planned(nodes), View()));
  };
  EXPECT_EQ(compare(v1::PREFLIGHT_WARN), "event=differs");
  EXPECT_EQ(compare(v1::PREFLIGHT_WARN), "");  // Said once.
  EXPECT_EQ(compare(v1::PREFLIGHT_STRICT).substr(0, 29),
            "differs c: --preflight strict");
  ASSERT_EQ(vetting.differences().size(), 1u);
}

TEST_F(VettingTest, OnlyNewNodesAreChecked) {
  const struct {
    const char* what;
    std::function<void(FourNodes&)> set;
    const char* expect;
  } kRows[] = {
      {"two new ones", [](FourNodes&) {},
       "event=node_check_begun; send a; wait"},
      {"no --node-check",
       [](FourNodes& t) { t.settings.set_node_check(false); }, ""},
      {"both have been in a world",
       [](FourNodes& t) {
         for (const char* name : {"a", "b"}) t.NodeOf(name).served_in = 1;
       },
       ""},
      {"an agent without rollcall-train",
       [](FourNodes& t) { t.NodeOf("b").hello.set_checks_groups(false); },
       "event=warning node=b text=\"--node-check does not check it: its agent "
       "has no rollcall-train\""},
  };
  for (const auto& row : kRows) {
    FourNodes job;
    row.set(job);
    EXPECT_EQ(job.Check("ab"), row.expect) << row.what;
    // A warning is not repeated.
    if (!job.vetting.checks()) {
      EXPECT_EQ(job.Check("ab"), "") << row.what;
    }
  }
}

// While the ranks of a and b wait, d is not needed.
TEST_F(VettingTest, ANodeThatOneRoundOfPairsFindsIsQuarantinedTheSecondTime) {
  const char* const kLater =
      "| passed d; event=node_check; leave out d: found by --node-check: "
      "broken; it is checked again later";
  const struct {
    const char* what;
    std::function<void(FourNodes&)> before;
    const char* expect;
  } kRows[] = {
      {"once", [](FourNodes&) {}, "later"},
      {"twice", [](FourNodes&) {}, "quarantine"},
      {"its next incarnation", [](FourNodes& t) { t.vetting.Forget("d"); },
       "later"},
  };
  ranks_wait = true;
  for (const char* name : {"a", "b"}) NodeOf(name).served_in = 1;
  for (const auto& row : kRows) {
    row.before(*this);
    vetting.Gather();
    EXPECT_EQ(Check("abd"), "event=node_check_begun; send d; wait") << row.what;
    const std::string told = Answer("d", /*passes=*/false);
    EXPECT_EQ(told, row.expect == std::string("later")
                        ? kLater
                        : "| passed d; event=node_check; quarantine d")
        << row.what;
  }
}

TEST_F(VettingTest, ASpareIsCheckedAloneAndThenLetsTheWorldGrow) {
  for (const char* name : {"a", "b"}) NodeOf(name).served_in = 1;
  NodeOf("a").node_rank = 0;
  NodeOf("b").node_rank = 1;
  gathering = false;
  EXPECT_EQ(Told(vetting.CheckSpares(View())), "");
  vetting.NoteSpare();
  isolated = true;
  EXPECT_EQ(Told(vetting.CheckSpares(View())), "");
  isolated = false;
  EXPECT_TRUE(vetting.IsUnchecked(NodeOf("c"), View()));
  EXPECT_EQ(Told(vetting.CheckSpares(View())),
            "event=node_check_begun; send c; send d; wait");
  EXPECT_EQ(Answer("c", true), "| ");
  // The world ends before d has answered.
  gathering = ranks_wait = true;
  vetting.Gather();
  EXPECT_EQ(Check("abd"),
            "leave out d: its check by --node-check had not ended when the "
            "world did; it is checked again later; without");
  // Only once.
  EXPECT_EQ(Check("abd"), "event=node_check_begun; send d; wait");
}

TEST_F(VettingTest, ANodeWhoseProbesBecomeOutdatedRepeatedlyIsLeftOut) {
  const auto four_times = [&](const char* name) {
    std::string told;
    for (int i = 0; i < 4; ++i) {
      told = Told(vetting.Outdated(NodeOf(name), /*moved=*/true, View()));
      if (i < 3) {
        EXPECT_EQ(told, absl::StrCat("explain ", name));
      }
    }
    return told;
  };
  const std::string kOut =
      "leave out b: its agent came back while it was probed or checked, or "
      "with other addresses, 4 times; it is probed again later";
  EXPECT_EQ(four_times("b"), kOut);
  // A world with it begins the count again, and so does another incarnation.
  vetting.Joined("b");
  EXPECT_EQ(four_times("b"), kOut);
  vetting.Forget("b");
  EXPECT_EQ(four_times("b"), kOut);
  NodeOf("c").hello.set_launcher(true);
  EXPECT_EQ(four_times("c"), "explain c");
}

TEST_F(VettingTest, NodesThatAreNeededAreProbedAgainSooner) {
  const struct {
    const char* what;
    uint32_t nodes_min;
    bool running;
    double due;
  } kRows[] = {
      {"enough others", 4, false, 30},
      {"too few", 5, false, 5},
      {"a world runs", 5, true, 30},
  };
  limits.unreached_delay = absl::Seconds(30);
  limits.unreached_delay_waiting = absl::Seconds(5);
  vetting.probes().Unreached("b", At(30));
  for (const auto& row : kRows) {
    settings.set_nodes_min(row.nodes_min);
    gathering = !row.running;
    EXPECT_EQ(vetting.NextExpiry(View()), At(row.due)) << row.what;
  }
  at = 29;
  EXPECT_TRUE(vetting.TakeExpired(View()).empty());
  at = 30;
  isolated = true;
  EXPECT_TRUE(vetting.TakeExpired(View()).empty());
  isolated = false;
  EXPECT_EQ(vetting.TakeExpired(View()), std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace rollcall
