#include "daemon/core/network_plan/facts_change.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/core/network_plan/network_plan_fixture.h"

namespace rollcall {
namespace {

v1::InfinibandPort& AddPort(v1::Facts& facts, const char* device) {
  v1::InfinibandPort& port = *facts.add_infiniband();
  port.set_device(device);
  port.set_state("ACTIVE");
  return port;
}

v1::Facts Before() {
  v1::Facts facts =
      FactsOf("m1", "eth0=10.0.0.1/24 eth1=10.1.0.1/24 docker0=172.17.0.1/16");
  facts.set_probe_port(40000);
  facts.set_network_namespace(7);
  facts.set_gpu_count(8);
  AddPort(facts, "mlx5_0");
  AddPort(facts, "mlx5_1");
  return facts;
}

void SetAddress(v1::Facts& facts, int interface, const char* address) {
  facts.mutable_interfaces(interface)->mutable_addresses(0)->set_address(
      address);
}

TEST(FactsChange, IsWhatWorldsArePlannedWith) {
  using enum FactsChange;
  struct {
    const char* what;
    std::function<void(v1::Facts&)> change;
    FactsChange expect;
  } const kRows[] = {
      {"nothing", [](auto&) {}, kNone},
      {"another probe port", [](auto& f) { f.set_probe_port(40001); },
       kAddresses},
      {"another address of the platform",
       [](auto& f) { f.set_advertised_address("192.0.2.1"); }, kAddresses},
      {"the machine has started again", [](auto& f) { f.set_boot_id("m2"); },
       kAddresses},
      {"another network namespace", [](auto& f) { f.set_network_namespace(8); },
       kAddresses},
      {"another address", [](auto& f) { SetAddress(f, 0, "10.0.0.2"); },
       kAddresses},
      {"one address more",
       [](auto& f) {
         f.mutable_interfaces(0)->add_addresses()->set_address("10.0.0.9");
       },
       kAddresses},
      {"one address less",
       [](auto& f) { f.mutable_interfaces(1)->clear_addresses(); }, kAddresses},
      {"its address is on another interface",
       [](auto& f) { f.mutable_interfaces(0)->set_name("eth9"); }, kAddresses},
      {"an interface is down",
       [](auto& f) { f.mutable_interfaces(1)->set_up(false); }, kAddresses},
      {"the order of interfaces",
       [](auto& f) { f.mutable_interfaces()->SwapElements(0, 1); }, kNone},
      {"an interface of containers",
       [](auto& f) { SetAddress(f, 2, "172.18.0.1"); }, kNone},
      {"no interface of containers",
       [](auto& f) { f.mutable_interfaces()->RemoveLast(); }, kNone},
      {"an address that no peer can use",
       [](auto& f) {
         f.mutable_interfaces(0)->add_addresses()->set_address("169.254.0.1");
       },
       kNone},
      {"a port is down",
       [](auto& f) { f.mutable_infiniband(1)->set_state("DOWN"); }, kPorts},
      {"one port more", [](auto& f) { AddPort(f, "mlx5_2"); }, kPorts},
      {"one port less", [](auto& f) { f.mutable_infiniband()->RemoveLast(); },
       kPorts},
      {"the order of ports",
       [](auto& f) { f.mutable_infiniband()->SwapElements(0, 1); }, kPorts},
      {"a port and an address",
       [](auto& f) {
         AddPort(f, "mlx5_2");
         SetAddress(f, 0, "10.0.0.2");
       },
       kAddresses},
      {"GPUs", [](auto& f) { f.set_gpu_count(7); }, kNone},
  };
  for (const auto& row : kRows) {
    const v1::Facts before = Before();
    v1::Facts after = before;
    row.change(after);
    EXPECT_EQ(ChangeOf(before, after, "10.0.0.1"), row.expect) << row.what;
    EXPECT_EQ(ChangeOf(after, before, "10.0.0.1"), row.expect) << row.what;
  }
}

TEST(FactsChange, AContainersInterfaceCountsIfTheNodeConnectsThroughIt) {
  const v1::Facts before = Before();
  v1::Facts after = before;
  after.mutable_interfaces(2)->add_addresses()->set_address("172.17.0.9");
  EXPECT_EQ(ChangeOf(before, after, "10.0.0.1"), FactsChange::kNone);
  EXPECT_EQ(ChangeOf(before, after, "172.17.0.1"), FactsChange::kAddresses);
}

}  // namespace
}  // namespace rollcall
