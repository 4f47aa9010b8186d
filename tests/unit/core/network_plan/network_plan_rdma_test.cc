// Which RDMA ports a network plan names, and its warnings.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/network_plan.h"
#include "tests/unit/core/network_plan/network_plan_fixture.h"

namespace rollcall {
namespace {

// Two machines have a RoCE port on each of these interfaces. Each machine's
// probers found `found` ("eth1=1 eth2=0": eth1 reached, eth2 not). Returns
// NCCL_IB_HCA on both machines, with a warning as "WARNING".
std::string Ports(const std::vector<std::string>& interfaces,
                  const std::map<std::string, bool>& found,
                  size_t name_bytes = 1) {
  std::vector<v1::Facts> facts(2);
  std::vector<Reports> reports(2);
  for (int host = 0; host < 2; ++host) {
    facts[host] = FactsOf(absl::StrCat("m", host),
                          absl::StrCat("eth0=10.0.0.", host + 1, "/24"));
    ProbeReport& report = reports[host][absl::StrCat("n", 1 - host)];
    report.answered = true;
    report.found[absl::StrCat("10.0.0.", host + 1)].reached = true;
    int network = 1;
    for (const std::string& name : interfaces) {
      const std::string address =
          absl::StrCat("10.", network++, ".0.", host + 1);
      v1::Interface& interface = *facts[host].add_interfaces();
      interface.set_name(name);
      interface.set_up(true);
      v1::InterfaceAddress& own = *interface.add_addresses();
      own.set_address(address);
      own.set_prefix_length(24);
      if (found.contains(name)) {
        report.found[address].reached = found.at(name);
      }
      v1::InfinibandPort& port = *facts[host].add_infiniband();
      port.set_device(absl::StrCat(std::string(name_bytes, 'm'), "_", name));
      port.set_port(1);
      port.set_state("ACTIVE");
      port.set_link_layer("Ethernet");
      port.set_rate_gbps(100);
      port.set_net_device(name);
      v1::Gid& gid = *port.add_gids();
      gid.set_index(3);
      gid.set_type("RoCE v2");
      gid.set_address(absl::StrCat("::ffff:", address));
      gid.set_net_device(name);
    }
    facts[host].mutable_versions()->set_nccl("2.28.9");
  }
  const absl::StatusOr<NetworkPlan> plan =
      PlanNetwork({{"n0", &facts[0], "10.0.0.1", false, &reports[0]},
                   {"n1", &facts[1], "10.0.0.2", false, &reports[1]}});
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::string text;
  for (const PlannedNode& node : plan->nodes) {
    for (const v1::PlannedVariable& v : node.variables) {
      if (v.name() == "NCCL_IB_HCA" || v.name() == "NCCL_IB_DISABLE") {
        absl::StrAppend(&text, v.value(), ";");
      }
    }
    if (!node.warning.empty()) absl::StrAppend(&text, "WARNING;");
  }
  return text;
}

TEST(NetworkPlan, RdmaPortsThatPeersDoNotReachAreLeftOut) {
  EXPECT_EQ(Ports({"a", "b"}, {{"a", true}, {"b", true}}), "");
  EXPECT_EQ(Ports({"a", "b"}, {{"a", true}, {"b", false}}),
            "=m_a:1;WARNING;=m_a:1;WARNING;");
  // With many addresses, some are not probed, and this decides nothing.
  EXPECT_EQ(Ports({"a", "b"}, {{"a", true}}), "");
  // A fabric that carries RDMA but no TCP gets a warning; NCCL still uses it.
  EXPECT_EQ(Ports({"a", "b"}, {{"a", false}, {"b", false}}),
            "WARNING;WARNING;");
}

// An interface is up, but no peer reaches it.
TEST(NetworkPlan, InterfacesThatPeersDoNotReachAreNamed) {
  const v1::Facts one = FactsOf("m1", "eth0=10.0.0.1/24 lost0=10.66.0.1/24");
  const v1::Facts two = FactsOf("m2", "eth0=10.0.0.2/24 more0=10.67.0.2/24");
  Reports at_one = ReportsOf("b=10.0.0.1");
  at_one["b"].found["10.66.0.1"].error = "no route to host";
  // The second address of b was not probed.
  const Reports at_two = ReportsOf("a=10.0.0.2");
  const auto plan = PlanNetwork({{"a", &one, "10.0.0.1", false, &at_one},
                                 {"b", &two, "10.0.0.2", false, &at_two}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes[0].warning,
            "its peers do not reach it at lost0 10.66.0.1 by TCP; if this "
            "job needs it, check its cable, routes and firewall");
  EXPECT_EQ(plan->nodes[1].warning, "");
}

// Every node gets the rows of all nodes, so their length is bounded.
TEST(NetworkPlan, SettingsThatAreTooLongAreLeftOut) {
  EXPECT_EQ(
      Ports({"a", "b", "c"}, {{"c", false}}, 200),
      absl::StrCat("=", std::string(200, 'm'), "_a:1,", std::string(200, 'm'),
                   "_b:1;WARNING;=", std::string(200, 'm'), "_a:1,",
                   std::string(200, 'm'), "_b:1;WARNING;"));
  EXPECT_EQ(Ports({"a", "b", "c", "d", "e", "f", "g"}, {{"c", false}}, 200),
            "WARNING;WARNING;");
}

}  // namespace
}  // namespace rollcall
