#include "daemon/core/network_plan/comparison/differences.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/core/network_plan/differences_fixture.h"

namespace rollcall {
namespace {

TEST_F(Differences, NodesOfOneKindHaveNone) {
  Compare({});
  EXPECT_EQ(Texts(), "");
  Compare({Host()});
  EXPECT_EQ(Texts(), "");
  Compare({Host(), Host(), Host()});
  EXPECT_EQ(Texts(), "");
  EXPECT_EQ(Differing(), "");
}

TEST_F(Differences, EachFactIsCompared) {
  struct Row {
    Host other;
    const char* expect;
  };
  const Row rows[] = {
      {{.nccl = "2.21.5"}, "NCCL version: 2.28.9 on n0, n2; 2.21.5 on n1"},
      {{.gpus = 7}, "GPUs: 8 x H100 on n0, n2; 7 x H100 on n1"},
      {{.model = "A100"}, "GPUs: 8 x H100 on n0, n2; 8 x A100 on n1"},
      {{.gpus = 0}, "GPUs: 8 x H100 on n0, n2; none on n1"},
      {{.ports = 7},
       "active RDMA ports: 8 InfiniBand on n0, n2; 7 InfiniBand on n1"},
      {{.last = "DOWN"},
       "active RDMA ports: 8 InfiniBand on n0, n2; 7 InfiniBand; mlx5_7:1 "
       "DOWN on n1"},
      {{.port_mtu = 2048}, "RDMA MTU: 4096 on n0, n2; 2048 on n1"},
      {{.mtu = 1500}, "interface MTU: 9000 on n0, n2; 1500 on n1"},
      {{.driver = "535.2"}, "NVIDIA driver: 570.1 on n0, n2; 535.2 on n1"},
      {{.memlock = 8 << 20}, "memlock limit: enough on n0, n2; 8 MiB on n1"},
      {{.memlock = 0}, "memlock limit: enough on n0, n2; 0 KiB on n1"},
      {{.shm = 64 << 20}, "/dev/shm: enough on n0, n2; 64 MiB on n1"},
      {{.clock = 72}, "clock: right on n0, n2; 72 s ahead of the daemon on n1"},
      {{.clock = -30}, "clock: right on n0, n2; 30 s behind the daemon on n1"},
      // A digest is bytes, not text, so it is not shown.
      {{.digest = std::string(32, '\xff')},
       "command: d1d1d1d1d1d1 on n0, n2; ffffffffffff on n1"},
  };
  for (const Row& row : rows) {
    Compare({Host(), row.other, Host()});
    EXPECT_EQ(Texts(), row.expect);
    EXPECT_EQ(Differing(), row.other.clock == 0 ? "n1" : "");
    for (const v1::Difference& difference : found_) {
      v1::Difference copy;
      EXPECT_TRUE(copy.ParseFromString(difference.SerializeAsString()));
    }
  }
}

TEST_F(Differences, WhatIsUnknownIsComparedWithNothing) {
  Compare({Host(), {.nccl = "", .driver = "", .digest = ""}});
  EXPECT_EQ(Texts(), "");
  // All sizes above the minimum count as equal.
  Compare({Host(), {.memlock = 1 << 30, .shm = 1 << 30, .clock = -19}});
  EXPECT_EQ(Texts(), "");
  // Without RDMA, NCCL locks no memory, so the limit does not matter.
  Compare({{.ports = 0}, {.ports = 0, .memlock = 1 << 16}});
  EXPECT_EQ(Texts(), "");
  // The limit does not apply to this node.
  Compare({Host(), {.memlock = 8 << 20, .may_lock = true}});
  EXPECT_EQ(Texts(), "");
  // The MTU of an interface is unknown.
  Compare({Host(), {.mtu = 0}});
  EXPECT_EQ(Texts(), "");
}

TEST_F(Differences, WhatFailedIsNotNone) {
  struct Row {
    Host other;
    const char* expect;
  };
  const Row rows[] = {
      {{.ports = 0, .missing = "infiniband"}, ""},
      {{.ports = 0}, "active RDMA ports: 8 InfiniBand on n0, n2; none on n1"},
      {{.gpus = 0, .missing = "gpus"}, ""},
      {{.gpus = 0, .missing = "gpus", .counted_gpus = 8}, ""},
      {{.gpus = 0, .counted_gpus = 8}, ""},
      // The driver did not answer for the fourth GPU.
      {{.gpus = 3, .missing = "gpus.3"}, ""},
      {{.model = ""}, ""},
      // Other missing facts of a GPU or port do not count here.
      {{.gpus = 7, .missing = "gpus.retired_pages"},
       "GPUs: 8 x H100 on n0, n2; 7 x H100 on n1"},
      {{.gpus = 7, .missing = "gpus.0.retired_pages"},
       "GPUs: 8 x H100 on n0, n2; 7 x H100 on n1"},
      {{.ports = 7, .missing = "infiniband.mlx5_0"},
       "active RDMA ports: 8 InfiniBand on n0, n2; 7 InfiniBand on n1"},
  };
  for (const Row& row : rows) {
    Compare({Host(), row.other, Host()});
    EXPECT_EQ(Texts(), row.expect) << row.other.missing;
    EXPECT_EQ(Differing(), *row.expect == '\0' ? "" : "n1");
  }
}

TEST_F(Differences, PortsThatAreNotInUseAreToldAndNotCompared) {
  Compare({Host(), {.unplugged = 1}, Host()});
  EXPECT_EQ(Texts(), "");
  EXPECT_EQ(Differing(), "");
  Compare({Host(), {.unplugged = 1}, {.last = "DOWN"}});
  EXPECT_EQ(Texts(),
            "active RDMA ports: 8 InfiniBand; n1: mlx5_8:1 DOWN on n0, n1; "
            "7 InfiniBand; mlx5_7:1 DOWN on n2");
  EXPECT_EQ(Differing(), "n2");
  Compare({Host(), Host(), Host(), {.last = "DOWN"}, {.last = "INIT"}});
  EXPECT_EQ(Texts(),
            "active RDMA ports: 8 InfiniBand on n0, n1, n2; 7 InfiniBand; n3: "
            "mlx5_7:1 DOWN; n4: mlx5_7:1 INIT on n3, n4");
  EXPECT_EQ(Differing(), "n3,n4");
  // Two nodes that lack the same number of ports are on one side.
  Compare({{.last = "DOWN"}, {.last = "INIT"}, Host()});
  EXPECT_EQ(Differing(), "n2");
}

TEST_F(Differences, TheSideOfMostComesFirst) {
  Compare({{.nccl = "2.1"}, Host(), Host()});
  EXPECT_EQ(Texts(), "NCCL version: 2.28.9 on n1, n2; 2.1 on n0");
  EXPECT_EQ(Differing(), "n0");
  // But it is not named if the first node's value is the one that counts.
  Compare({{.nccl = "2.1"}, Host(), Host()}, true);
  EXPECT_EQ(Texts(), "NCCL version: 2.1 on n0; 2.28.9 on n1, n2");
  EXPECT_EQ(Differing(), "n1,n2");
  // Of two sides of equal size, neither is the right one.
  Compare({{.nccl = "2.1"}, Host()});
  EXPECT_EQ(Texts(), "NCCL version: 2.1 on n0; 2.28.9 on n1");
  EXPECT_EQ(Differing(), "");
  Compare({{.nccl = "2.1"}, Host()}, true);
  EXPECT_EQ(Differing(), "n1");
  // A node that differs from all others in one fact is not the reference for
  // other facts.
  Compare({{.nccl = "2.1"}, Host(), {.gpus = 4}, Host()});
  EXPECT_EQ(Differing(), "n0,n2");
  Compare({{.nccl = "2.1"}, {.gpus = 4}, {.driver = "1"}});
  EXPECT_EQ(Differing(), "n1,n2");
  // A node that does not know the fact is not the reference either.
  Compare({{.nccl = ""}, Host(), Host(), {.nccl = "2.1"}});
  EXPECT_EQ(Differing(), "n3");
}

TEST_F(Differences, ANewcomerDiffersFromWhatTheMembersAgreeOn) {
  const auto judge = [&](const std::vector<Host>& hosts) -> std::string {
    Compare(hosts);
    const ComparedNode newcomer = nodes_.back();
    nodes_.pop_back();
    const auto difference = SharedFacts(nodes_).FindDifference(newcomer);
    return difference.has_value() ? DifferenceText(*difference) : "";
  };
  EXPECT_EQ(judge({Host(), Host()}), "");
  EXPECT_EQ(judge({Host(), {.nccl = "2.1"}}),
            "NCCL version: 2.28.9 on n0; 2.1 on n1");
  EXPECT_EQ(judge({{.nccl = ""}, Host(), {.nccl = "2.1"}}),
            "NCCL version: 2.28.9 on n1; 2.1 on n2");
  EXPECT_EQ(judge({Host(), {.nccl = ""}}), "");
  EXPECT_EQ(judge({{.nccl = ""}, Host()}), "");
  // The members themselves differ.
  EXPECT_EQ(judge({Host(), {.nccl = "2.1"}, {.nccl = "2.2"}}), "");
  EXPECT_EQ(judge({Host(), {.clock = 90}}), "");
  EXPECT_EQ(judge({Host()}), "");
}

}  // namespace
}  // namespace rollcall
