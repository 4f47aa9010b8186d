#include "daemon/core/network_plan/comparison/fabric.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

// A port as "NAME KIND RATE [STATE] [gid INDEX TYPE ADDRESS[@INTERFACE]]...".
// KIND is ib or eth. STATE defaults to ACTIVE. TYPE is the RoCE version, 1 or
// 2. INTERFACE defaults to if-NAME.
void AddPort(v1::Facts& facts, const std::string& text) {
  const std::vector<std::string> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  v1::InfinibandPort& port = *facts.add_infiniband();
  port.set_device(words.at(0));
  port.set_port(1);
  port.set_link_layer(words.at(1) == "ib"    ? "InfiniBand"
                      : words.at(1) == "eth" ? "Ethernet"
                                             : words.at(1));
  port.set_rate_gbps(static_cast<uint32_t>(std::stoi(words.at(2))));
  port.set_state("ACTIVE");
  port.set_net_device(absl::StrCat("if-", port.device()));
  for (size_t i = 3; i < words.size(); ++i) {
    if (words[i] == "unusable") {
      port.set_unusable("no provider");
    } else if (words[i] != "gid") {
      port.set_state(words[i]);
    } else {
      v1::Gid& gid = *port.add_gids();
      gid.set_index(static_cast<uint32_t>(std::stoi(words.at(i + 1))));
      gid.set_type(absl::StrCat("RoCE v", words.at(i + 2)));
      const std::vector<std::string> at = absl::StrSplit(words.at(i + 3), '@');
      gid.set_address(at.at(0));
      gid.set_net_device(at.size() > 1 ? at.at(1) : port.net_device());
      i += 3;
    }
  }
}

struct Host {
  const char* nccl;
  std::vector<std::string> ports;
  std::set<std::string> unreached = {};
  const char* missing = "";
};

// Returns "n0 rails mlx5_0,mlx5_1 NAME=VALUE ...; n1 ...", with a warning as
// "WARNING".
std::string Plan(const std::vector<Host>& hosts) {
  std::vector<v1::Facts> facts(hosts.size());
  std::vector<FabricNode> nodes;
  for (size_t i = 0; i < hosts.size(); ++i) {
    facts[i].mutable_versions()->set_nccl(hosts[i].nccl);
    for (const std::string& port : hosts[i].ports) AddPort(facts[i], port);
    if (*hosts[i].missing != '\0') {
      facts[i].add_missing()->set_fact(hosts[i].missing);
    }
    nodes.push_back({absl::StrCat("n", i), &facts[i], hosts[i].unreached});
  }
  const std::vector<FabricPorts> plan = PlanFabric(nodes);
  EXPECT_EQ(plan.size(), hosts.size());
  std::vector<std::string> texts;
  for (size_t i = 0; i < plan.size(); ++i) {
    std::vector<std::string> words = {absl::StrCat("n", i)};
    std::vector<std::string> rails;
    for (const int rail : plan[i].rails) {
      rails.push_back(facts[i].infiniband(rail).device());
    }
    words.push_back(absl::StrCat("[", absl::StrJoin(rails, ","), "]"));
    for (const v1::PlannedVariable& variable : plan[i].variables) {
      EXPECT_FALSE(variable.reason().empty());
      words.push_back(absl::StrCat(variable.name(), "=", variable.value()));
    }
    if (!plan[i].warning.empty()) words.push_back("WARNING");
    texts.push_back(absl::StrJoin(words, " "));
  }
  return absl::StrJoin(texts, "; ");
}

const char kA[] = "mlx5_0 ib 400";
const char kB[] = "mlx5_1 ib 400";
const char kV1[] = "gid 0 1 fe80::1 gid 1 2 fe80::1 ";

TEST(Fabric, WhatNcclGetsRightIsNotSet) {
  EXPECT_EQ(Plan({{"2.28.9", {}}, {"2.28.9", {}}}), "n0 []; n1 []");
  EXPECT_EQ(Plan({{"2.28.9", {kA, kB}}, {"2.28.9", {kA, kB}}}),
            "n0 [mlx5_0,mlx5_1]; n1 [mlx5_0,mlx5_1]");
  // The names differ, but the positions are the same.
  EXPECT_EQ(Plan({{"2.28.9", {kA, kB}},
                  {"2.28.9", {"mlx5_4 ib 400", "mlx5_5 ib 400"}}}),
            "n0 [mlx5_0,mlx5_1]; n1 [mlx5_4,mlx5_5]");
  // NCCL ignores ports that are not active.
  EXPECT_EQ(Plan({{"2.28.9", {kA, "mlx5_1 ib 400 DOWN"}},
                  {"2.28.9", {kA, "mlx5_1 ib 400 INIT"}}}),
            "n0 [mlx5_0]; n1 [mlx5_0]");
  EXPECT_EQ(Plan({{"2.28.9", {kA, "mlx5_1 ib 400 unusable"}},
                  {"2.28.9", {kA, "mlx5_1 ib 400 unusable"}}}),
            "n0 [mlx5_0]; n1 [mlx5_0]");
}

TEST(Fabric, PortsOfAnotherSpeedAreLeftOut) {
  // A storage port comes first. Positions count all ports.
  const char storage[] = "mlx5_0 ib 100";
  EXPECT_EQ(Plan({{"2.28.9", {storage, kB, "mlx5_2 ib 400"}},
                  {"2.28.9", {storage, kB, "mlx5_2 ib 400"}}}),
            "n0 [mlx5_1,mlx5_2] NCCL_IB_HCA==mlx5_1:1,mlx5_2:1 "
            "UCX_NET_DEVICES=mlx5_1:1,mlx5_2:1; "
            "n1 [mlx5_1,mlx5_2] NCCL_IB_HCA==mlx5_1:1,mlx5_2:1 "
            "UCX_NET_DEVICES=mlx5_1:1,mlx5_2:1");
  // One fast port has less total speed than two slower ones.
  EXPECT_EQ(Plan({{"2.28.9", {"a0 ib 200", "a1 ib 200", "a2 ib 200", kA}},
                  {"2.28.9", {"a0 ib 200", "a1 ib 200", "a2 ib 200", kA}}}),
            "n0 [a0,a1,a2] NCCL_IB_HCA==a0:1,a1:1,a2:1 "
            "UCX_NET_DEVICES=a0:1,a1:1,a2:1; "
            "n1 [a0,a1,a2] NCCL_IB_HCA==a0:1,a1:1,a2:1 "
            "UCX_NET_DEVICES=a0:1,a1:1,a2:1");
  // The Ethernet port serves management. It is active, but must not be used.
  EXPECT_EQ(Plan({{"2.28.9", {kA, "mlx5_1 eth 25 gid 3 2 ::ffff:10.0.0.1"}},
                  {"2.28.9", {kA}}}),
            "n0 [mlx5_0] NCCL_IB_HCA==mlx5_0:1 UCX_NET_DEVICES=mlx5_0:1; "
            "n1 [mlx5_0]");
}

TEST(Fabric, ARailThatOneNodeLacksIsLeftOutOnAll) {
  EXPECT_EQ(Plan({{"2.28.9", {kA, kB, "mlx5_2 ib 400"}},
                  {"2.28.9", {kA, "mlx5_1 ib 10 DOWN", "mlx5_2 ib 400"}}}),
            "n0 [mlx5_0,mlx5_2] NCCL_IB_HCA==mlx5_0:1,mlx5_2:1 "
            "UCX_NET_DEVICES=mlx5_0:1,mlx5_2:1; n1 [mlx5_0,mlx5_2]");
  // The nodes have no active port at a common position, so positions are not
  // used.
  EXPECT_EQ(Plan({{"2.28.9", {kA, "mlx5_1 ib 10 DOWN"}},
                  {"2.28.9", {"mlx5_0 ib 10 DOWN", kB}}}),
            "n0 [mlx5_0]; n1 [mlx5_1]");
  // The machines are of two models, so ports cannot be matched by position.
  EXPECT_EQ(Plan({{"2.28.9", {kA, kB}}, {"2.28.9", {"ib0 ib 400"}}}),
            "n0 [mlx5_0,mlx5_1]; n1 [ib0]");
}

TEST(Fabric, SpeedsThatDifferAreBetterThanNone) {
  EXPECT_EQ(Plan({{"2.28.9", {"mlx5_0 ib 200"}}, {"2.28.9", {kA}}}),
            "n0 [mlx5_0]; n1 [mlx5_0]");
}

TEST(Fabric, WhereNotAllHaveOneNcclUsesSockets) {
  EXPECT_EQ(Plan({{"2.28.9", {kA}}, {"2.28.9", {}}}),
            "n0 [] NCCL_IB_DISABLE=1; n1 []");
  const std::string roce =
      absl::StrCat("mlx5_0 eth 400 ", kV1, "gid 3 2 ::ffff:10.0.0.1");
  EXPECT_EQ(Plan({{"2.28.9", {kA}}, {"2.28.9", {roce}}}),
            "n0 [] NCCL_IB_DISABLE=1; n1 [] NCCL_IB_DISABLE=1");
  // EFA devices are left to their NCCL plugin.
  EXPECT_EQ(Plan({{"2.28.9", {"rdmap0 Unspecified 100"}},
                  {"2.28.9", {"rdmap0 Unspecified 100"}}}),
            "n0 []; n1 []");
}

// A node whose ports are unknown does not affect the plan of the others.
TEST(Fabric, PortsThatAreNotKnownAreNotNone) {
  const Host timed_out = {"", {}, {}, "infiniband"};
  EXPECT_EQ(Plan({{"2.28.9", {kA, kB}}, timed_out, {"2.28.9", {kA, kB}}}),
            "n0 [mlx5_0,mlx5_1]; n1 [] WARNING; n2 [mlx5_0,mlx5_1]");
  EXPECT_EQ(Plan({{"2.28.9", {kA, "mlx5_1 ib 100"}}, timed_out}),
            "n0 []; n1 []");
  EXPECT_EQ(Plan({timed_out, timed_out}), "n0 []; n1 []");
  EXPECT_EQ(Plan({timed_out}), "n0 []");
  EXPECT_EQ(Plan({}), "");
  // If no other node has RDMA, there is no warning.
  EXPECT_EQ(Plan({{"2.28.9", {}}, timed_out, {"2.28.9", {}}}),
            "n0 []; n1 []; n2 []");
  // Another node is known to have no port.
  EXPECT_EQ(Plan({{"2.28.9", {kA}}, timed_out, {"2.28.9", {}}}),
            "n0 [] NCCL_IB_DISABLE=1; n1 []; n2 []");
  // First it is unknown whether the node can open its port. Then it is known
  // that it cannot.
  const std::vector<std::string> unusable = {"mlx5_0 ib 400 unusable"};
  EXPECT_EQ(Plan({{"2.28.9", {kA}},
                  {"2.28.9", {kA}},
                  {"2.28.9", unusable, {}, "infiniband"}}),
            "n0 [mlx5_0]; n1 [mlx5_0]; n2 [] WARNING");
  EXPECT_EQ(
      Plan({{"2.28.9", {kA}}, {"2.28.9", unusable, {}, "infiniband.unusable"}}),
      "n0 [] NCCL_IB_DISABLE=1; n1 []");
  EXPECT_EQ(Plan({{"2.28.9", {kA, kB}},
                  {"2.28.9", {kA, "mlx5_1 ib 400"}, {}, "infiniband.mlx5_1"}}),
            "n0 [mlx5_0,mlx5_1]; n1 [mlx5_0,mlx5_1]");
}

TEST(Fabric, TheGidIndexOfEachNode) {
  const auto roce = [](int index, const std::string& address) {
    return absl::StrCat("mlx5_0 eth 400 ", kV1, "gid 2 1 ", address, " gid ",
                        index, " 2 ", address);
  };
  const std::vector<Host> old = {{"2.19.3", {roce(3, "::ffff:10.0.0.1")}},
                                 {"2.19.3", {roce(5, "::ffff:10.0.0.2")}}};
  EXPECT_EQ(Plan(old),
            "n0 [mlx5_0] NCCL_IB_GID_INDEX=3; n1 [mlx5_0] NCCL_IB_GID_INDEX=5");
  // The NCCL version is unknown, so the settings are those for an old version,
  // which a new one accepts too.
  EXPECT_EQ(Plan({{"", {roce(3, "::ffff:10.0.0.1")}},
                  {"2.21.5", {roce(5, "::ffff:10.0.0.2")}}}),
            "n0 [mlx5_0] NCCL_IB_GID_INDEX=3; n1 [mlx5_0]");
  EXPECT_EQ(Plan({{"2.28.9", {roce(3, "2001:db8::1")}},
                  {"2.28.9", {roce(3, "2001:db8::2")}}}),
            "n0 [mlx5_0] NCCL_IB_ADDR_FAMILY=AF_INET6; "
            "n1 [mlx5_0] NCCL_IB_ADDR_FAMILY=AF_INET6");
}

TEST(Fabric, OneIndexForPortsThatDiffer) {
  const std::vector<std::string> ports = {
      "mlx5_0 eth 400 gid 3 2 ::ffff:10.0.0.1",
      "mlx5_1 eth 400 gid 5 2 ::ffff:10.0.1.1"};
  EXPECT_EQ(Plan({{"2.19.3", ports}, {"2.19.3", ports}}),
            "n0 [mlx5_0,mlx5_1] WARNING; n1 [mlx5_0,mlx5_1] WARNING");
  EXPECT_EQ(Plan({{"2.21.5", ports}, {"2.21.5", ports}}),
            "n0 [mlx5_0,mlx5_1]; n1 [mlx5_0,mlx5_1]");
  const std::vector<std::string> families = {
      "mlx5_0 eth 400 gid 3 2 ::ffff:10.0.0.1",
      "mlx5_1 eth 400 gid 3 2 2001:db8::1"};
  EXPECT_EQ(Plan({{"2.21.5", families}, {"2.21.5", families}}),
            "n0 [mlx5_0,mlx5_1] WARNING; n1 [mlx5_0,mlx5_1] WARNING");
}

TEST(Fabric, APortWithoutAnAddressOrAPeerIsNotChosen) {
  const std::string good = "mlx5_0 eth 400 gid 3 2 ::ffff:10.0.0.1";
  const std::string bare = absl::StrCat("mlx5_1 eth 400 ", kV1);
  EXPECT_EQ(Plan({{"2.28.9", {good, bare}}, {"2.28.9", {good, bare}}}),
            "n0 [mlx5_0] NCCL_IB_HCA==mlx5_0:1 UCX_NET_DEVICES=mlx5_0:1; "
            "n1 [mlx5_0] NCCL_IB_HCA==mlx5_0:1 UCX_NET_DEVICES=mlx5_0:1");
  const std::string other = "mlx5_1 eth 400 gid 3 2 ::ffff:10.9.0.1";
  EXPECT_EQ(Plan({{"2.28.9", {good, other}, {"if-mlx5_1"}},
                  {"2.28.9", {good, other}}}),
            "n0 [mlx5_0] NCCL_IB_HCA==mlx5_0:1 UCX_NET_DEVICES=mlx5_0:1; "
            "n1 [mlx5_0] NCCL_IB_HCA==mlx5_0:1 UCX_NET_DEVICES=mlx5_0:1");
}

// A port with a VLAN interface has RoCE v2 addresses on both interfaces.
TEST(Fabric, TheAddressThatPeersReachIsTaken) {
  const auto port = [](const std::string& name, int vlan_index) {
    return absl::StrCat(name, " eth 400 gid 3 2 ::ffff:10.0.0.1 gid ",
                        vlan_index, " 2 ::ffff:10.9.0.1@vlan9");
  };
  const std::set<std::string> cut = {"if-mlx5_0", "if-mlx5_1"};
  const std::vector<std::string> same = {port("mlx5_0", 5), port("mlx5_1", 5)};
  EXPECT_EQ(Plan({{"2.28.9", same, cut}, {"2.28.9", same}}),
            "n0 [mlx5_0,mlx5_1] NCCL_IB_GID_INDEX=5; n1 [mlx5_0,mlx5_1]");
  EXPECT_EQ(Plan({{"2.19.3", same, cut}, {"2.19.3", same}}),
            "n0 [mlx5_0,mlx5_1] NCCL_IB_GID_INDEX=5; "
            "n1 [mlx5_0,mlx5_1] NCCL_IB_GID_INDEX=3");
  const std::vector<std::string> other = {port("mlx5_0", 5), port("mlx5_1", 7)};
  EXPECT_EQ(Plan({{"2.28.9", other, cut}, {"2.28.9", other}}),
            "n0 [mlx5_0,mlx5_1] WARNING; n1 [mlx5_0,mlx5_1]");
}

// If TCP reaches no RDMA port of a node, all ports are used, with a warning.
// The address that the platform names (1:1 NAT) is on no interface.
TEST(Fabric, AnUnreachedAddressWithoutAnInterfaceSaysNothingOfPorts) {
  v1::Facts facts;
  AddPort(facts, "mlx5_0 eth 100 gid 3 2 ::ffff:10.0.0.1");
  v1::InfinibandPort& port = *facts.mutable_infiniband(0);
  port.clear_net_device();
  port.mutable_gids(0)->clear_net_device();
  EXPECT_NE(PeerGid(port, {""}), nullptr);
}

TEST(Fabric, TheWarningGoesToNodesWhosePortsAreNotReached) {
  const std::string port = "mlx5_0 eth 400 gid 3 2 ::ffff:10.0.0.1";
  EXPECT_EQ(Plan({{"2.28.9", {port}, {"if-mlx5_0"}},
                  {"2.28.9", {port}, {"lost0"}},
                  {"2.28.9", {port}}}),
            "n0 [mlx5_0] WARNING; n1 [mlx5_0]; n2 [mlx5_0]");
}

}  // namespace
}  // namespace rollcall
