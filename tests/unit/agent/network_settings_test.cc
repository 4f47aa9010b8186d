#include "client/agent/nccl/network_settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

struct Case {
  std::vector<std::string> environment;
  NcclEnv nccl_env = NcclEnv::kNeeded;
  std::map<std::string, std::pair<std::string, std::string>> conf = {};
  bool one_machine = false;
  // The peers use this node's IPv6 address.
  bool ipv6 = false;
};

// A node with eth0 (which its peers reach), docker0, and a RoCE port on eth1.
// The plan sets NCCL_SOCKET_IFNAME and NCCL_IB_HCA.
NetworkSettings Settings(const Case& row) {
  v1::World world;
  world.set_one_machine(row.one_machine);
  v1::Member& member = *world.add_members();
  member.set_address(row.ipv6 ? "fd00::1" : "10.0.0.1");
  const auto plan = [&](const char* name, const char* value) {
    v1::PlannedVariable& variable = *member.add_plan();
    variable.set_name(name);
    variable.set_value(value);
  };
  plan("NCCL_SOCKET_IFNAME", "=eth0");
  if (row.ipv6) plan("NCCL_SOCKET_FAMILY", "AF_INET6");
  plan("NCCL_IB_HCA", "=mlx5_0:1");
  plan("LD_PRELOAD", "/tmp/evil.so");
  plan("NCCL_NET_PLUGIN", "evil");
  v1::MemberPort& rail = *member.add_ports();
  rail.set_device("mlx5_0");
  rail.set_port(1);
  rail.set_link_layer("Ethernet");
  rail.set_rail(0);
  rail.mutable_gid()->set_index(3);
  member.add_ports()->set_device("mlx5_9");

  NetworkOptions options;
  options.nccl_env = row.nccl_env;
  options.conf = row.conf;
  for (const char* name : {"lo", "eth0", "eth1", "docker0"}) {
    v1::Interface& interface = *options.facts.add_interfaces();
    interface.set_name(name);
    interface.set_up(true);
    interface.set_loopback(std::string(name) == "lo");
  }
  options.facts.mutable_interfaces(1)->add_addresses()->set_address("10.0.0.1");
  options.facts.mutable_interfaces(1)->add_addresses()->set_address("fd00::1");
  v1::InfinibandPort& port = *options.facts.add_infiniband();
  port.set_device("mlx5_0");
  port.set_port(1);
  port.set_state("ACTIVE");
  port.set_link_layer("Ethernet");
  const auto gid = [&](uint32_t index, const char* type, const char* address) {
    v1::Gid& each = *port.add_gids();
    each.set_index(index);
    each.set_type(type);
    each.set_address(address);
  };
  gid(0, "RoCE v1", "fe80::1");
  gid(1, "RoCE v2", "fe80::1");
  gid(2, "RoCE v1", "::ffff:10.1.0.1");
  gid(3, "RoCE v2", "::ffff:10.1.0.1");
  return SettingsFor(world, 0, row.environment, options);
}

std::string Set(const Case& row) {
  return absl::StrJoin(
      Settings(row).variables, " ", [](std::string* out, const auto& variable) {
        absl::StrAppend(out, variable.first, "=", variable.second);
      });
}

TEST(NetworkSettings, WhatThePlanSaysAndNothingElse) {
  EXPECT_EQ(Set({{"PATH=/bin"}}),
            "NCCL_SOCKET_IFNAME==eth0 NCCL_IB_HCA==mlx5_0:1");
  EXPECT_EQ(Set({{}, NcclEnv::kNone}), "");
  EXPECT_EQ(Set({{}, NcclEnv::kAll}),
            "NCCL_SOCKET_IFNAME==eth0 NCCL_IB_HCA==mlx5_0:1 "
            "UCX_NET_DEVICES=mlx5_0:1 NCCL_IB_GID_INDEX=3");
  EXPECT_EQ(Set({{}, NcclEnv::kAll, {}, /*one_machine=*/true}),
            "NCCL_SOCKET_IFNAME==eth0 NCCL_IB_HCA==mlx5_0:1");
}

// A daemon that sends more than the launcher may set does not get it.
TEST(NetworkSettings, OfTheJobsVariablesOnlyHarmlessOnesAreTaken) {
  v1::JobSettings settings;
  for (const auto& [name, value] :
       {std::pair("LD_PRELOAD", "/tmp/evil.so"), std::pair("NCCL_ALGO", "Ring"),
        std::pair("NCCL_NET_PLUGIN", "evil"), std::pair("PATH", "/tmp"),
        std::pair("NCCL_PROTO", "a\nb")}) {
    v1::JobVariable& variable = *settings.add_environment();
    variable.set_name(name);
    variable.set_value(value);
  }
  std::vector<std::string> refused;
  EXPECT_EQ(JobVariables(settings, refused),
            (std::map<std::string, std::string>{{"NCCL_ALGO", "Ring"}}));
  ASSERT_EQ(refused.size(), 4u);
  EXPECT_TRUE(absl::StrContains(refused[0], "LD_PRELOAD")) << refused[0];
}

TEST(NetworkSettings, WhatTheUserSetIsKept) {
  EXPECT_EQ(Set({{"NCCL_SOCKET_IFNAME=eth0", "NCCL_IB_HCA=mlx5"}}), "");
  // An empty value counts as not set.
  EXPECT_EQ(Set({{"NCCL_SOCKET_IFNAME=", "NCCL_IB_HCA=mlx5"}}),
            "NCCL_SOCKET_IFNAME==eth0");
  EXPECT_EQ(Set({{},
                 NcclEnv::kNeeded,
                 {{"NCCL_IB_HCA", {"mlx5", "/etc/nccl.conf"}}}}),
            "NCCL_SOCKET_IFNAME==eth0");
  // NCCL_NET names another network, whose plugin knows its devices.
  EXPECT_EQ(Set({{"NCCL_NET=AWS Libfabric"}}), "NCCL_SOCKET_IFNAME==eth0");
  EXPECT_EQ(Set({{"NCCL_NET=IB"}}),
            "NCCL_SOCKET_IFNAME==eth0 NCCL_IB_HCA==mlx5_0:1");
}

TEST(NetworkSettings, TheFamilyIsThatOfThePeersInterface) {
  const auto set = [](const char* own) {
    Case row{{own}};
    row.ipv6 = true;
    return Set(row);
  };
  EXPECT_EQ(set("PATH=/bin"),
            "NCCL_SOCKET_IFNAME==eth0 NCCL_SOCKET_FAMILY=AF_INET6 "
            "NCCL_IB_HCA==mlx5_0:1");
  EXPECT_EQ(set("NCCL_SOCKET_IFNAME=eth"),
            "NCCL_SOCKET_FAMILY=AF_INET6 NCCL_IB_HCA==mlx5_0:1");
  // eth1 may have only IPv4.
  EXPECT_EQ(set("NCCL_SOCKET_IFNAME=eth1"), "NCCL_IB_HCA==mlx5_0:1");
  EXPECT_EQ(set("NCCL_SOCKET_FAMILY=AF_INET"),
            "NCCL_SOCKET_IFNAME==eth0 NCCL_IB_HCA==mlx5_0:1");
  Case none{{}, NcclEnv::kNone};
  none.ipv6 = true;
  EXPECT_EQ(Set(none), "");
}

TEST(NetworkSettings, WhatCannotWorkIsSaid) {
  struct Row {
    const char* own;
    const char* expect;  // In the only warning; empty: no warning.
  };
  const Row rows[] = {
      {"NCCL_SOCKET_IFNAME=eth0", ""},
      {"NCCL_SOCKET_IFNAME=eth", ""},
      {"NCCL_SOCKET_IFNAME=^docker", ""},
      {"NCCL_SOCKET_IFNAME=", ""},
      {"NCCL_SOCKET_IFNAME=ens5", "it has eth0, eth1, docker0"},
      {"NCCL_SOCKET_IFNAME==eth", "selects no interface"},
      {"NCCL_SOCKET_IFNAME=eth1", "leaves out eth0"},
      {"NCCL_SOCKET_IFNAME=^eth0", "leaves out eth0"},
      {"NCCL_SOCKET_FAMILY=AF_INET", ""},
      {"NCCL_SOCKET_FAMILY=AF_INET6", "leaves out 10.0.0.1"},
      {"GLOO_SOCKET_IFNAME=eth0", ""},
      {"GLOO_SOCKET_IFNAME=eth0,eth1", ""},
      {"GLOO_SOCKET_IFNAME=ens5", "not up here"},
      {"GLOO_SOCKET_IFNAME=eth", "not up here"},
      {"NCCL_IB_HCA=mlx5", ""},
      {"NCCL_IB_HCA==mlx5_0:1", ""},
      {"NCCL_IB_HCA=mlx4",
       "selects no active RDMA port of this node; it has "
       "mlx5_0:1"},
      {"NCCL_IB_HCA==mlx5_0:2", "selects no active"},
      {"NCCL_IB_HCA=^mlx5", "selects no active"},
      {"NCCL_IB_GID_INDEX=3", ""},
      {"NCCL_IB_GID_INDEX=-1", ""},
      {"NCCL_IB_GID_INDEX=2", "is RoCE v1"},
      {"NCCL_IB_GID_INDEX=1",
       "is RoCE v2 fe80::1 on mlx5_0:1; RoCE v2 with an "
       "address is at 3"},
      {"NCCL_IB_GID_INDEX=7", "is not there on mlx5_0:1"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.own);
    const std::vector<std::string> warnings = Settings({{row.own}}).warnings;
    ASSERT_EQ(warnings.size(), *row.expect == '\0' ? 0u : 1u);
    if (warnings.empty()) continue;
    EXPECT_TRUE(absl::StrContains(warnings[0], row.expect)) << warnings[0];
    EXPECT_TRUE(absl::StrContains(warnings[0], row.own)) << warnings[0];
    EXPECT_TRUE(absl::StrContains(warnings[0], "(environment)"));
    // On one machine, loopback reaches all nodes.
    EXPECT_TRUE(
        Settings({{row.own}, NcclEnv::kNeeded, {}, true}).warnings.empty());
  }
}

class NcclConf : public testing::Test {
 protected:
  NcclConf() : folder_(testing::TempDir() + "/nccl_conf_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~NcclConf() override {
    unlink((folder_ + "/.nccl.conf").c_str());
    unlink((folder_ + "/other").c_str());
    rmdir(folder_.c_str());
  }
  std::string folder_;
};

TEST_F(NcclConf, IsReadAsNcclReadsIt) {
  std::ofstream(folder_ + "/.nccl.conf")
      << "# NCCL_IB_HCA=no\n NCCL_IB_HCA = a\nNCCL_IB_HCA=b\nNCCL_IB_HCA=c\n\n"
         "x\n=";
  auto conf = ReadNcclConf({"HOME=" + folder_});
  EXPECT_EQ(conf["NCCL_IB_HCA"].first, "b");
  EXPECT_EQ(conf["NCCL_IB_HCA"].second, folder_ + "/.nccl.conf");
  EXPECT_EQ(conf.count("x"), 0u);
  // A file that is named replaces the one in the home folder.
  std::ofstream(folder_ + "/other") << "NCCL_DEBUG=WARN\n";
  conf =
      ReadNcclConf({"HOME=" + folder_, "NCCL_CONF_FILE=" + folder_ + "/other"});
  EXPECT_EQ(conf.count("NCCL_IB_HCA"), 0u);
  EXPECT_EQ(conf["NCCL_DEBUG"].first, "WARN");
  EXPECT_TRUE(ReadNcclConf({"NCCL_CONF_FILE=/nonexistent"}).empty());
}

}  // namespace
}  // namespace rollcall
