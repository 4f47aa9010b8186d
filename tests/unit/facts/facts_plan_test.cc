// From a machine's sysfs to the NCCL settings of the network plan.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/facts/devices/infiniband.h"
#include "daemon/core/network_plan/comparison/differences.h"
#include "daemon/core/network_plan/comparison/fabric.h"
#include "tests/unit/facts/facts_fixture.h"

namespace rollcall {
namespace {

class PlanOfMachines : public DeviceTest {
 protected:
  void Add(const std::string& machine, const std::string& nccl) {
    const std::string root = Machine(machine, facts_.size());
    v1::Facts& facts = facts_.emplace_back();
    facts.mutable_versions()->set_nccl(nccl);
    for (v1::InfinibandPort& port : ReadInfinibandPorts(root)) {
      ReadGids(root, port);
      *facts.add_infiniband() = std::move(port);
    }
  }

  // Returns "NAME=VALUE ...; ...", by node.
  std::string Plan() const {
    std::vector<FabricNode> nodes;
    for (const v1::Facts& facts : facts_) nodes.push_back({"n", &facts, {}});
    std::vector<std::string> texts;
    for (const FabricPorts& ports : PlanFabric(nodes)) {
      EXPECT_EQ(ports.warning, "");
      texts.push_back(absl::StrJoin(
          ports.variables, " ", [](std::string* out, const auto& variable) {
            absl::StrAppend(out, variable.name(), "=", variable.value());
          }));
    }
    return absl::StrJoin(texts, "; ");
  }

  std::string Differing() const {
    std::vector<ComparedNode> nodes;
    for (size_t i = 0; i < facts_.size(); ++i) {
      nodes.push_back({absl::StrCat("n", i), &facts_[i], "", "", std::nullopt});
    }
    std::vector<std::string> texts;
    for (const v1::Difference& each : FindDifferences(nodes, 0)) {
      texts.push_back(DifferenceText(each));
    }
    return absl::StrJoin(texts, "; ");
  }

  std::vector<v1::Facts> facts_;
};

// By NCCL's user guide, no setting is needed here: all ports are on one fabric,
// and on InfiniBand NCCL finds the GID itself.
TEST_F(PlanOfMachines, EightInfinibandPortsNeedNothing) {
  Add("dgx_h100", "2.28.9");
  Add("dgx_h100", "2.19.3");
  EXPECT_EQ(Plan(), "; ");
  EXPECT_EQ(Differing(), "NCCL version: 2.28.9 on n0; 2.19.3 on n1");
}

TEST_F(PlanOfMachines, ARailThatIsDownOnOneNodeIsLeftOutOnTheOther) {
  Add("dgx_h100", "2.28.9");
  Add("seven_of_eight", "2.28.9");
  const std::string seven =
      "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_6:1,mlx5_7:1";
  EXPECT_EQ(Plan(), absl::StrCat("NCCL_IB_HCA==", seven,
                                 " UCX_NET_DEVICES=", seven, "; "));
  EXPECT_EQ(Differing(),
            "active RDMA ports: 8 InfiniBand on n0; 7 InfiniBand; mlx5_5:1 "
            "DOWN on n1");
}

TEST_F(PlanOfMachines, TwoContainersWithDifferentGidIndices) {
  Add("roce_a", "2.19.3");
  Add("roce_b", "2.19.3");
  EXPECT_EQ(Plan(), "NCCL_IB_GID_INDEX=3; NCCL_IB_GID_INDEX=7");
  // The plan has a setting for this difference, so it is not reported.
  EXPECT_EQ(Differing(), "");
  for (v1::Facts& facts : facts_) facts.mutable_versions()->set_nccl("2.28.9");
  EXPECT_EQ(Plan(), "; ");
}

TEST_F(PlanOfMachines, MachinesOfTwoKindsGoOverSockets) {
  Add("dgx_h100", "2.28.9");
  Add("roce_a", "2.28.9");
  EXPECT_EQ(Plan(), "NCCL_IB_DISABLE=1; NCCL_IB_DISABLE=1");
  EXPECT_EQ(Differing(),
            "active RDMA ports: 8 InfiniBand on n0; 2 Ethernet on n1");
}

}  // namespace
}  // namespace rollcall
