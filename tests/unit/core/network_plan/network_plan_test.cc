#include "daemon/core/network_plan/network_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"

namespace rollcall {
namespace {

struct NodeRow {
  const char* boot;
  const char* interfaces;
  const char* observed;
  const char* advertised = "";
  // The probers that were drawn for this node, and the addresses at which each
  // reached it: "n1=10.0.0.1,10.1.0.1 n2= n3=?". n2 reached it at none; n3 has
  // not reported. Empty: no prober was drawn.
  const char* probed = "";
  bool launcher = false;
  bool stays = false;
};

std::string Plan(const std::vector<NodeRow>& rows,
                 std::vector<std::string>* without = nullptr) {
  std::vector<v1::Facts> facts;
  std::vector<Reports> reports;
  for (const NodeRow& row : rows) {
    facts.push_back(FactsOf(row.boot, row.interfaces));
    facts.back().set_advertised_address(row.advertised);
    reports.push_back(ReportsOf(row.probed));
  }
  std::vector<PlanNode> nodes;
  for (size_t i = 0; i < rows.size(); ++i) {
    nodes.push_back(
        {absl::StrCat("n", i), &facts[i], rows[i].observed, rows[i].launcher,
         reports[i].empty() ? nullptr : &reports[i], rows[i].stays});
  }
  const absl::StatusOr<NetworkPlan> plan = PlanNetwork(nodes, without);
  if (!plan.ok()) return std::string(plan.status().message());
  std::vector<std::string> told;
  for (const PlannedNode& node : plan->nodes) {
    told.push_back(node.address);
    for (const v1::PlannedVariable& v : node.variables) {
      if (v.name() == "GLOO_SOCKET_IFNAME") continue;  // Has its own test.
      absl::StrAppend(&told.back(), "(", v.value(), ")");
    }
  }
  std::string text = absl::StrCat(plan->one_machine ? "one machine: " : "",
                                  absl::StrJoin(told, " "));
  return text;
}

TEST(NetworkPlan, AWorldOnOneMachineUsesLoopback) {
  EXPECT_EQ(Plan({{"m", "lo=127.0.0.1/8", "127.0.0.1"},
                  {"m", "lo=127.0.0.1/8", "127.0.0.1"}}),
            "one machine: 127.0.0.1 127.0.0.1");
  EXPECT_EQ(Plan({{"m", "eth0=10.0.0.1/24", "10.0.0.1"}}),
            "one machine: 127.0.0.1");
}

// A node that is not probed gets the address from which it connects.
TEST(NetworkPlan, TakesTheAddressByWhichANodeConnects) {
  EXPECT_EQ(Plan({{"m1", "lo=127.0.0.1/8 eth0=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "lo=127.0.0.1/8 eth0=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2");
  // A setting keeps NCCL off a bridge that looks the same on all nodes.
  EXPECT_EQ(
      Plan({{"m1", "docker0=172.17.0.1/16 eth0=10.0.0.1/24", "10.0.0.1"},
            {"m2", "docker0=172.17.0.1/16 eth0=10.0.0.2/24", "10.0.0.2"}}),
      "10.0.0.1(=eth0) 10.0.0.2(=eth0)");
  // The nodes share no subnet, so the network is routed.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=172.20.0.1/24", "192.168.1.1"},
                  {"m2", "a=192.168.2.1/24 b=172.21.0.1/24", "172.21.0.1"}}),
            "192.168.1.1(=a) 172.21.0.1(=b)");
  // The nodes have only IPv6, including a link-local address.
  EXPECT_EQ(Plan({{"m1", "e=fe80::1/64 e=fd00::1/64", "fd00::1"},
                  {"m2", "e=fe80::2/64 e=fd00::2/64", "fd00:0::2"}}),
            "fd00::1(=e) fd00::2(=e)");
  // Two agents of one machine in a larger world share its address.
  EXPECT_EQ(Plan({{"m1", "e=10.0.0.1/24", "10.0.0.1"},
                  {"m1", "e=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "e=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.1 10.0.0.2");
}

TEST(NetworkPlan, TakesAddressesThatMostProbersReached) {
  // The launcher's agent connects from loopback.
  EXPECT_EQ(Plan({{"m1", "lo=127.0.0.1/8 e=10.0.0.1/24", "127.0.0.1", "",
                   "n1=10.0.0.1"},
                  {"m2", "lo=127.0.0.1/8 e=10.0.0.2/24", "10.0.0.2", "",
                   "n0=10.0.0.2"}}),
            "10.0.0.1 10.0.0.2");
  // An address that all probers reach is preferred to the address from which
  // the node connects.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=10.0.0.1/24", "192.168.1.1", "",
                   "n1=10.0.0.1"},
                  {"m2", "a=192.168.2.1/24 b=10.0.0.2/24", "192.168.2.1", "",
                   "n0=10.0.0.2"}}),
            "10.0.0.1(=b) 10.0.0.2(=b)");
  // Of several addresses that all probers reach, the one in a subnet that all
  // nodes share is taken.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=10.0.0.1/24", "192.168.1.1", "",
                   "n1=192.168.1.1,10.0.0.1"},
                  {"m2", "a=192.168.2.1/24 b=10.0.0.2/24", "192.168.2.1", "",
                   "n0=192.168.2.1,10.0.0.2"}}),
            "10.0.0.1(=b) 10.0.0.2(=b)");
  // The address that the platform names comes first if a prober has reached it.
  EXPECT_EQ(
      Plan({{"m1", "a=10.1.0.1/24", "10.1.0.1", "10.65.0.1",
             "n1=10.1.0.1,10.65.0.1"},
            {"m2", "a=10.1.0.2/24", "10.1.0.2", "10.65.0.2", "n0=10.1.0.2"}}),
      "10.65.0.1 10.1.0.2");
  // Two machines have the same private address, so probes decide.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=10.0.0.1/24", "192.168.1.1", "",
                   "n1=10.0.0.1"},
                  {"m2", "a=192.168.1.1/24 b=10.0.0.2/24", "192.168.1.1", "",
                   "n0=10.0.0.2"}}),
            "10.0.0.1(=b) 10.0.0.2(=b)");
}

TEST(NetworkPlan, AnAddressWithoutProofIsNotTaken) {
  const auto lacks = [](const std::vector<NodeRow>& rows, const char* node) {
    const std::string told = Plan(rows);
    return absl::StrContains(
        told, absl::StrCat("no address that peers could use on ", node));
  };
  // The node only claims this address, which is another node's or any other.
  EXPECT_TRUE(lacks({{"m1", "a=10.0.0.1/24", "10.0.0.1"},
                     {"m2", "b=10.0.0.1/24", "10.0.0.9"}},
                    "n1"));
  EXPECT_TRUE(lacks({{"m1", "a=10.0.0.1/24", "10.0.0.1"},
                     {"m2", "b=203.0.113.66/24", "10.0.0.9"}},
                    "n1"));
  // An address that only the platform names is not used.
  EXPECT_EQ(Plan({{"m1", "a=10.1.0.1/24", "10.1.0.1", "10.65.0.1"},
                  {"m2", "a=10.1.0.2/24", "10.1.0.2"}}),
            "10.1.0.1 10.1.0.2");
  // The node connects from an address that none of its interfaces has.
  EXPECT_TRUE(lacks({{"m1", "a=10.0.0.1/24", "203.0.113.1"},
                     {"m2", "b=10.0.0.2/24", "10.0.0.2"}},
                    "n0"));
  // Two machines connect from the same address, so this proves nothing.
  EXPECT_TRUE(lacks({{"m1", "a=10.0.0.1/24", "10.0.0.1"},
                     {"m2", "b=10.0.0.1/24", "10.0.0.1"},
                     {"m3", "b=10.0.0.3/24", "10.0.0.3"}},
                    "n0"));
  // One prober that confirms a false address is outvoted.
  EXPECT_EQ(Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1", "",
                   "n1=10.0.0.1 n2=10.0.0.1 n3=10.0.0.1"},
                  {"m2", "a=10.0.0.2/24", "10.0.0.2", "",
                   "n0=10.0.0.2 n2=10.0.0.2 n3=10.0.0.2"},
                  {"m3", "a=10.0.0.3/24", "10.0.0.3", "",
                   "n0=10.0.0.3 n1=10.0.0.3 n3=10.0.0.3"},
                  {"m4", "a=10.0.0.4/24 a=10.0.0.1/24", "10.0.0.4", "",
                   "n0=10.0.0.4 n1=10.0.0.4 n2=10.0.0.4,10.0.0.1"}}),
            "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4(=a)");
  // The launcher's agent gets an address even if no node was drawn to probe it.
  EXPECT_EQ(Plan({{"m1", "a=10.0.0.1/24", "127.0.0.1", "", "", true},
                  {"m2", "a=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2");
}

// One of three probers confirms another node's address.
TEST(NetworkPlan, AnAddressThatFewProbersReachedIsNotGivenOut) {
  const v1::Facts plain = FactsOf("m1", "a=10.0.0.1/24");
  const v1::Facts liar = FactsOf("m2", "a=10.0.0.4/24 b=10.0.0.1/24");
  const v1::Facts third = FactsOf("m3", "a=10.0.0.5/24");
  const v1::Facts fourth = FactsOf("m4", "a=10.0.0.6/24");
  const Reports one = ReportsOf("n1=10.0.0.1");
  const Reports three =
      ReportsOf("n0=10.0.0.4,10.0.0.1 n2=10.0.0.4 n3=10.0.0.4");
  const auto plan = PlanNetwork({{"n0", &plain, "10.0.0.1", false, &one},
                                 {"n1", &liar, "127.0.0.1", false, &three},
                                 {"n2", &third, "10.0.0.5"},
                                 {"n3", &fourth, "10.0.0.6"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes[1].addresses, std::vector<std::string>{"10.0.0.4"});
}

// Nodes that are not members confirm each other's addresses, which must not
// count.
TEST(NetworkPlan, SparesDoNotOutvoteMembers) {
  // n2 claims an address that only spares reach. Members reach n0 at its first
  // address, and spares reach it at its second one.
  const std::vector<NodeRow> rows = {
      {"m1", "a=10.0.0.1/24 b=10.1.0.1/24", "192.0.2.1", "",
       "n1=10.0.0.1 n2=10.0.0.1 s1=10.1.0.1 s2=10.1.0.1 s3=10.1.0.1", false,
       true},
      {"m2", "a=10.0.0.2/24", "192.0.2.2", "", "n0=10.0.0.2 n2=10.0.0.2", false,
       true},
      {"m3", "a=10.0.0.3/24 x=10.9.0.9/24", "192.0.2.3", "",
       "n0=10.0.0.3 n1=10.0.0.3 s1=10.9.0.9 s2=10.9.0.9 s3=10.9.0.9"}};
  EXPECT_EQ(Plan(rows), "10.0.0.1(=a) 10.0.0.2 10.0.0.3(=a)");
}

TEST(NetworkPlan, NamesPairsThatCannotConnect) {
  std::vector<std::string> without;
  const std::vector<NodeRow> cut = {
      {"m1", "a=10.0.0.1/24", "127.0.0.1", "", "n1=10.0.0.1 n2=", true},
      {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0=10.0.0.2 n2="},
      {"m3", "a=10.0.0.3/24", "192.0.2.9", "", "n0= n1="}};
  const std::string told = Plan(cut, &without);
  EXPECT_TRUE(absl::StrContains(told,
                                "n2 cannot reach n0 at 10.0.0.1 "
                                "(no answer)"))
      << told;
  EXPECT_TRUE(absl::StrContains(told, "n0 cannot reach n2 at 10.0.0.3"))
      << told;
  EXPECT_TRUE(absl::StrContains(told,
                                "network address translation is the "
                                "likely cause, n2 connects from "
                                "192.0.2.9"))
      << told;
  EXPECT_EQ(without, std::vector<std::string>{"n2"});
  // A node that falsely reports that it reaches no node is left out itself.
  without.clear();
  Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1", "", "n1=10.0.0.1 n2="},
        {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0=10.0.0.2 n2="},
        {"m3", "a=10.0.0.3/24", "10.0.0.3", "", "n0=10.0.0.3 n1=10.0.0.3"}},
       &without);
  EXPECT_EQ(without, std::vector<std::string>{"n2"});
  // Of two nodes that cannot connect, the one outside the running world is left
  // out.
  for (const bool first : {true, false}) {
    without.clear();
    Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1", "", "n1=", false, first},
          {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0=", false, !first}},
         &without);
    EXPECT_EQ(without, std::vector<std::string>{first ? "n1" : "n0"});
  }
  // If both have the same number of cuts, the prober is left out.
  without.clear();
  Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1", "", "n1="},
        {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0=10.0.0.2"}},
       &without);
  EXPECT_EQ(without, std::vector<std::string>{"n1"});
  // No address is reached by both.
  without.clear();
  const std::string split =
      Plan({{"m1", "a=10.0.0.1/24 b=10.1.0.1/24", "10.0.0.1", "",
             "n1=10.0.0.1 n2=10.1.0.1"},
            {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0=10.0.0.2 n2=10.0.0.2"},
            {"m3", "b=10.1.0.3/24", "10.1.0.3", "", "n0=10.1.0.3 n1=10.1.0.3"}},
           &without);
  EXPECT_TRUE(absl::StrContains(split, "n2 cannot reach n0 at 10.0.0.1"))
      << split;
}

// The message blames no firewall if no probe was made.
TEST(NetworkPlan, TellsAProberThatHasNotReportedFromOneThatReachesNobody) {
  std::vector<std::string> without;
  const std::string silent = Plan(
      {{"m1", "a=10.0.0.1/24", "10.0.0.1", "", "n1=10.0.0.1 n2=?"},
       {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0=10.0.0.2 n2=?"},
       {"m3", "a=10.0.0.3/24", "192.0.2.9", "", "n0=10.0.0.3 n1=10.0.0.3"}},
      &without);
  EXPECT_EQ(silent,
            "n2 has not reported whether it reaches n0; n2 has not reported "
            "whether it reaches n1; expected a report in time; its agent's log "
            "may say why");
  EXPECT_EQ(without, std::vector<std::string>{"n2"});
  const std::string both =
      Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1", "", "n1=10.0.0.1 n2=?"},
            {"m2", "a=10.0.0.2/24", "10.0.0.2", "", "n0= n2=10.0.0.2"},
            {"m3", "a=10.0.0.3/24", "10.0.0.3", "", "n0=10.0.0.3"}});
  EXPECT_TRUE(absl::StrContains(
      both, "n2 has not reported whether it reaches n0; n0 cannot reach n1 at"))
      << both;
  EXPECT_TRUE(absl::StrContains(both, "check firewalls")) << both;
}

TEST(NetworkPlan, TriesTheLikeliestAddressesFirst) {
  v1::Facts facts =
      FactsOf("m",
              "lo=127.0.0.1/8 docker0=172.17.0.1/16 e=fe80::1/64 e=fd00::1/64 "
              "b=10.0.0.1/24 c=10.1.0.1/24 d=10.2.0.1/24");
  facts.mutable_interfaces(6)->set_default_route(true);
  facts.set_advertised_address("10.9.0.1");
  EXPECT_EQ(absl::StrJoin(CandidateAddresses({"n", &facts, "10.1.0.1"}), " "),
            "10.9.0.1 10.1.0.1 10.2.0.1 10.0.0.1 fd00::1");
}

// A host's own name may resolve to 127.0.1.1 on that host, and Gloo would
// advertise this address to peers.
TEST(NetworkPlan, TellsGlooTheInterfaceThatPeersReach) {
  const v1::Facts one = FactsOf("m1", "docker0=172.17.0.1/16 eth0=10.0.0.1/24");
  const v1::Facts two = FactsOf("m2", "ens5=10.0.0.2/24");
  const auto plan =
      PlanNetwork({{"a", &one, "10.0.0.1"}, {"b", &two, "10.0.0.2"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> told;
  for (const PlannedNode& node : plan->nodes) {
    for (const v1::PlannedVariable& v : node.variables) {
      if (v.name() == "GLOO_SOCKET_IFNAME") told.push_back(v.value());
    }
  }
  EXPECT_EQ(told, (std::vector<std::string>{"eth0", "ens5"}));
}

// Facts of a node with one interface that has all these addresses.
v1::Facts DualStack(const std::string& boot,
                    const std::vector<std::string>& addresses) {
  v1::Facts facts = FactsOf(boot, "eth0=10.0.0.1/24");
  facts.mutable_interfaces(0)->clear_addresses();
  for (const std::string& address : addresses) {
    v1::InterfaceAddress& one = *facts.mutable_interfaces(0)->add_addresses();
    one.set_address(address);
    one.set_prefix_length(24);
  }
  return facts;
}

// Without the setting, NCCL would use the IPv4 address of that interface.
TEST(NetworkPlan, TellsNcclTheFamilyOfTheAddressThatPeersUse) {
  const v1::Facts both = DualStack("m1", {"10.0.0.1", "fd00::1"});
  const v1::Facts ipv6 = DualStack("m2", {"fe80::2", "fd00::2"});
  const v1::Facts first = DualStack("m3", {"10.0.0.3", "fd00::3"});
  const Reports at_both = ReportsOf("b=fd00::1 c=fd00::1");
  const Reports at_ipv6 = ReportsOf("a=fd00::2 c=fd00::2");
  const Reports at_first = ReportsOf("a=10.0.0.3 b=10.0.0.3");
  const auto plan = PlanNetwork({{"a", &both, "", false, &at_both},
                                 {"b", &ipv6, "", false, &at_ipv6},
                                 {"c", &first, "", false, &at_first}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> told;
  for (const PlannedNode& node : plan->nodes) {
    told.push_back(node.address);
    for (const v1::PlannedVariable& v : node.variables) {
      if (v.name() != "NCCL_SOCKET_FAMILY") continue;
      absl::StrAppend(&told.back(), " ", v.value(), ": ", v.reason());
    }
  }
  EXPECT_EQ(told, (std::vector<std::string>{
                      "fd00::1 AF_INET6: its peers use fd00::1, eth0 also has "
                      "10.0.0.1, and NCCL would use that",
                      "fd00::2", "10.0.0.3"}));
}

TEST(NetworkPlan, NamesTheNodesThatHaveNone) {
  const std::string error = Plan({{"m1", "lo=127.0.0.1/8", "127.0.0.1"},
                                  {"m2", "eth0=10.0.0.2/24", "10.0.0.2"}});
  EXPECT_NE(error.find("n0 (connects from 127.0.0.1, has lo 127.0.0.1)"),
            std::string::npos)
      << error;
}

// The settings that go to each of many nodes are bounded.
TEST(NetworkPlan, NamesSomeOfManyNodesAndAddresses) {
  std::string many;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&many, " eth", i, "=10.1.0.", i, "/24");
  }
  std::vector<NodeRow> rows(100, {"m1", many.c_str(), "10.9.9.9"});
  rows[0].boot = "m0";
  const std::string error = Plan(rows);
  EXPECT_NE(error.find(" and 52 more)"), std::string::npos) << error;
  EXPECT_NE(error.find("; nor on 92 more nodes"), std::string::npos) << error;
  EXPECT_LT(error.size(), 4096u);
}

TEST(NetworkPlan, KnowsBridgesOfOneMachine) {
  for (const char* local : {"docker0", "br-0123456789ab", "virbr0", "cni0"}) {
    EXPECT_TRUE(IsLocalBridge(local)) << local;
  }
  for (const char* other : {"br-ex", "br-lan", "br-0123456789xy", "eth0"}) {
    EXPECT_FALSE(IsLocalBridge(other)) << other;
  }
  // The interface is used although it has the name of a bridge, because the
  // node reaches others through it.
  EXPECT_EQ(Plan({{"m1", "cni7=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "eth0=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2");
}

TEST(NetworkPlan, KnowsAddressesThatNoPeerCanUse) {
  for (const char* bad :
       {"127.0.0.1", "127.0.1.1", "169.254.1.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "ff02::1", "no", "",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"}) {
    EXPECT_TRUE(IsUnusable(bad)) << bad;
  }
  for (const char* good : {"10.0.0.1", "8.8.8.8", "fd00::1", "2001:db8::1"}) {
    EXPECT_FALSE(IsUnusable(good)) << good;
  }
}

}  // namespace
}  // namespace rollcall
