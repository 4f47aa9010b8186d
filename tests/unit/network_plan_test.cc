#include "daemon/core/network_plan.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

// "eth0=10.0.0.1/24 docker0=172.17.0.1/16", each interface up.
v1::Facts FactsOf(const std::string& boot, const std::string& text) {
  v1::Facts facts;
  facts.set_boot_id(boot);
  const std::vector<std::string> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::vector<std::string> parts =
        absl::StrSplit(word, absl::ByAnyChar("=/"));
    v1::Interface& interface = *facts.add_interfaces();
    interface.set_name(parts[0]);
    interface.set_up(true);
    interface.set_loopback(parts[0] == "lo");
    v1::InterfaceAddress& address = *interface.add_addresses();
    address.set_address(parts[1]);
    address.set_prefix_length(static_cast<uint32_t>(std::stoi(parts[2])));
  }
  return facts;
}

struct NodeRow {
  const char* boot;
  const char* interfaces;
  const char* observed;
  const char* advertised = "";
};

std::string Plan(const std::vector<NodeRow>& rows) {
  std::vector<v1::Facts> facts;
  for (const NodeRow& row : rows) {
    facts.push_back(FactsOf(row.boot, row.interfaces));
    facts.back().set_advertised_address(row.advertised);
  }
  std::vector<PlanNode> nodes;
  for (size_t i = 0; i < rows.size(); ++i) {
    nodes.push_back({absl::StrCat("n", i), &facts[i], rows[i].observed});
  }
  const absl::StatusOr<NetworkPlan> plan = PlanNetwork(nodes);
  if (!plan.ok()) return std::string(plan.status().message());
  std::vector<std::string> told;
  for (const PlannedNode& node : plan->nodes) {
    told.push_back(node.address);
    for (const v1::PlannedVariable& v : node.variables) {
      if (v.name() == "GLOO_SOCKET_IFNAME") continue;  // A test of its own.
      absl::StrAppend(&told.back(), "(", v.value(), ")");
    }
  }
  std::string text = absl::StrCat(plan->one_machine ? "one machine: " : "",
                                  absl::StrJoin(told, " "));
  for (const IgnoredClaim& claim : plan->ignored) {
    absl::StrAppend(&text, "; ", claim.node, " not ", claim.address, " of ",
                    claim.owner);
  }
  return text;
}

TEST(NetworkPlan, PicksTheAddressThatPeersCanUse) {
  EXPECT_EQ(Plan({{"m", "lo=127.0.0.1/8", "127.0.0.1"},
                  {"m", "lo=127.0.0.1/8", "127.0.0.1"}}),
            "one machine: 127.0.0.1 127.0.0.1");
  EXPECT_EQ(Plan({{"m", "eth0=10.0.0.1/24", "10.0.0.1"}}),
            "one machine: 127.0.0.1");
  EXPECT_EQ(Plan({{"m1", "lo=127.0.0.1/8 eth0=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "lo=127.0.0.1/8 eth0=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2");
  // Bridges that look the same everywhere are nobody's address; and NCCL must
  // be kept from taking them.
  EXPECT_EQ(
      Plan({{"m1", "docker0=172.17.0.1/16 eth0=10.0.0.1/24", "10.0.0.1"},
            {"m2", "docker0=172.17.0.1/16 eth0=10.0.0.2/24", "10.0.0.2"}}),
      "10.0.0.1(=eth0) 10.0.0.2(=eth0)");
  // The launcher's own connection comes from loopback.
  EXPECT_EQ(Plan({{"m1", "lo=127.0.0.1/8 eth0=10.0.0.1/24", "127.0.0.1"},
                  {"m2", "lo=127.0.0.1/8 eth0=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2");
  // The subnet that all share wins over the one by which some came.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=10.0.0.1/24", "192.168.1.1"},
                  {"m2", "a=192.168.2.1/24 b=10.0.0.2/24", "192.168.2.1"}}),
            "10.0.0.1(=b) 10.0.0.2(=b)");
  // No shared subnet (routed): where each came from.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=172.20.0.1/24", "192.168.1.1"},
                  {"m2", "a=192.168.2.1/24 b=172.21.0.1/24", "172.21.0.1"}}),
            "192.168.1.1(=a) 172.21.0.1(=b)");
  // An address that two machines claim is neither's.
  EXPECT_EQ(Plan({{"m1", "a=192.168.1.1/24 b=10.0.0.1/24", "192.168.1.1"},
                  {"m2", "a=192.168.1.1/24 b=10.0.0.2/24", "192.168.1.1"}}),
            "10.0.0.1(=b) 10.0.0.2(=b)");
  // The platform's own word comes first.
  EXPECT_EQ(Plan({{"m1", "a=10.1.0.1/24", "10.1.0.1", "10.65.0.1"},
                  {"m2", "a=10.1.0.2/24", "10.1.0.2", "10.65.0.2"}}),
            "10.65.0.1 10.65.0.2");
  // IPv6 alone, with its link-local neighbour.
  EXPECT_EQ(Plan({{"m1", "e=fe80::1/64 e=fd00::1/64", "fd00::1"},
                  {"m2", "e=fe80::2/64 e=fd00::2/64", "fd00::2"}}),
            "fd00::1(=e) fd00::2(=e)");
  // Two agents of one machine in a larger world share its address.
  EXPECT_EQ(Plan({{"m1", "e=10.0.0.1/24", "10.0.0.1"},
                  {"m1", "e=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "e=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.1 10.0.0.2");
}

// What one node says takes no other node's address away.
TEST(NetworkPlan, AClaimOfAnAddressThatWasSeenToBeAnothersIsIgnored) {
  EXPECT_EQ(Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "a=10.0.0.2/24 b=10.0.0.1/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2(=a); n1 not 10.0.0.1 of n0");
  // Whichever comes first, and by the platform's word as well.
  EXPECT_EQ(Plan({{"m2", "a=10.0.0.2/24", "10.0.0.2", "10.0.0.1"},
                  {"m1", "a=10.0.0.1/24", "10.0.0.1"}}),
            "10.0.0.2 10.0.0.1; n0 not 10.0.0.1 of n1");
  EXPECT_EQ(Plan({{"m1", "a=fd00::1/64", "fd00::1"},
                  {"m2", "a=fd00::2/64 b=FD00:0::1/64", "fd00::2"}}),
            "fd00::1 fd00::2(=a); n1 not FD00:0::1 of n0");
  // One that has nothing else has no address.
  EXPECT_NE(Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1"},
                  {"m2", "b=10.0.0.1/24", "10.0.0.9"}})
                .find("no address that peers could use on n1"),
            std::string::npos);
  // Agents of one machine share what they have.
  EXPECT_EQ(Plan({{"m1", "a=10.0.0.1/24", "10.0.0.1"},
                  {"m1", "a=10.0.0.1/24", "127.0.0.1"},
                  {"m2", "a=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.1 10.0.0.2");
  // Container bridges look the same everywhere, and are not worth a word.
  EXPECT_EQ(Plan({{"m1", "docker0=172.17.0.1/16 e=10.0.0.1/24", "172.17.0.1"},
                  {"m2", "docker0=172.17.0.1/16 e=10.0.0.2/24", "10.0.0.2"}}),
            "10.0.0.1(=e) 10.0.0.2(=e)");
}

TEST(NetworkPlan, AClaimTakesNoNodesLastAddress) {
  // The launcher's own agent connects over loopback.
  EXPECT_EQ(Plan({{"m1", "a=10.0.0.1/24", "127.0.0.1"},
                  {"m2", "a=10.0.0.2/24 b=10.0.0.1/24", "10.0.0.2"}}),
            "10.0.0.1 10.0.0.2(=a)");
  EXPECT_EQ(
      Plan({{"m1", "a=10.0.0.1/24 a=fd00::1/64", "127.0.0.1"},
            {"m2", "a=10.0.0.2/24 b=10.0.0.1/24 b=fd00::1/64", "10.0.0.2"}}),
      "10.0.0.1(=a) 10.0.0.2(=a)");
  // Two that have nothing else: nobody knows whose it is.
  EXPECT_NE(Plan({{"m1", "a=10.0.0.1/24", "127.0.0.1"},
                  {"m2", "b=10.0.0.1/24", "10.9.0.9"}})
                .find("no address that peers could use on n0"),
            std::string::npos);
}

TEST(NetworkPlan, IgnoredClaimsAreNamedUpToABound) {
  std::vector<v1::Facts> facts;
  std::string all;
  for (int i = 1; i <= 20; ++i) {
    facts.push_back(
        FactsOf(absl::StrCat("m", i), absl::StrCat("a=10.0.0.", i, "/24")));
    absl::StrAppend(&all, "a=10.0.0.", i, "/24 ");
  }
  facts.push_back(FactsOf("m0", all + "a=10.0.1.1/24"));
  std::vector<PlanNode> nodes;
  for (size_t i = 0; i < facts.size(); ++i) {
    nodes.push_back({absl::StrCat("n", i), &facts[i],
                     i < 20 ? absl::StrCat("10.0.0.", i + 1) : "10.0.1.1"});
  }
  const auto plan = PlanNetwork(nodes);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ignored.size(), kIgnoredClaimsMax);
  EXPECT_EQ(plan->nodes[20].ignored.size(), 20u);
  EXPECT_EQ(plan->nodes[20].address, "10.0.1.1");
}

// A host's own name may mean 127.0.1.1 to its resolver; Gloo would tell peers
// so.
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

TEST(NetworkPlan, NamesTheNodesThatHaveNone) {
  const std::string error = Plan({{"m1", "lo=127.0.0.1/8", "127.0.0.1"},
                                  {"m2", "eth0=10.0.0.2/24", "10.0.0.2"}});
  EXPECT_NE(error.find("n0 (has lo 127.0.0.1)"), std::string::npos) << error;
}

TEST(NetworkPlan, KnowsAddressesThatNoPeerCanUse) {
  for (const char* bad :
       {"127.0.0.1", "127.0.1.1", "169.254.1.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "ff02::1", "no", ""}) {
    EXPECT_TRUE(IsUnusable(bad)) << bad;
  }
  for (const char* good : {"10.0.0.1", "8.8.8.8", "fd00::1", "2001:db8::1"}) {
    EXPECT_FALSE(IsUnusable(good)) << good;
  }
}

}  // namespace
}  // namespace rollcall
