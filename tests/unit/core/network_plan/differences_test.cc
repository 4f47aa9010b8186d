#include "daemon/core/network_plan/differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

struct Host {
  std::string nccl = "2.28.9";
  int gpus = 8;
  std::string model = "H100";
  int ports = 8;
  // The state of the last port.
  std::string last = "ACTIVE";
  uint32_t port_mtu = 4096;
  uint32_t mtu = 9000;
  std::string driver = "570.1";
  std::string digest = std::string(32, '\xd1');
  uint64_t memlock = UINT64_MAX;
  // True for root, which has no limit.
  bool may_lock = false;
  uint64_t shm = uint64_t{64} << 30;
  int clock = 0;
  // The name of a MissingFact.
  std::string missing = "";
  uint32_t counted_gpus = 0;
  // The number of ports without a cable, listed after the others.
  int unplugged = 0;
};

v1::Facts FactsOf(const Host& host) {
  v1::Facts facts;
  facts.mutable_versions()->set_nccl(host.nccl);
  facts.mutable_versions()->set_driver(host.driver);
  for (int i = 0; i < host.gpus; ++i) facts.add_gpus()->set_name(host.model);
  for (int i = 0; i < host.ports; ++i) {
    v1::InfinibandPort& port = *facts.add_infiniband();
    port.set_device(absl::StrCat("mlx5_", i));
    port.set_port(1);
    port.set_link_layer("InfiniBand");
    port.set_state(i + 1 == host.ports ? host.last : "ACTIVE");
    port.set_active_mtu(host.port_mtu);
  }
  for (int i = 0; i < host.unplugged; ++i) {
    v1::InfinibandPort& port = *facts.add_infiniband();
    port.set_device(absl::StrCat("mlx5_", host.ports + i));
    port.set_port(1);
    port.set_link_layer("InfiniBand");
    port.set_state("DOWN");
  }
  v1::Interface& interface = *facts.add_interfaces();
  interface.set_name("eth0");
  interface.set_mtu(host.mtu);
  facts.add_interfaces()->set_name("eth1");
  facts.mutable_limits()->set_memlock_bytes(host.memlock);
  facts.mutable_limits()->set_memlock_unbound(host.may_lock);
  facts.mutable_limits()->set_shm_bytes(host.shm);
  facts.set_gpu_count(host.counted_gpus);
  if (!host.missing.empty()) facts.add_missing()->set_fact(host.missing);
  return facts;
}

class Differences : public testing::Test {
 protected:
  // `rules`: the first node's value always counts as the right one.
  void Compare(const std::vector<Host>& hosts, bool rules = false) {
    facts_.clear();
    nodes_.clear();
    for (const Host& host : hosts) facts_.push_back(FactsOf(host));
    for (size_t i = 0; i < hosts.size(); ++i) {
      nodes_.push_back({absl::StrCat("n", i), &facts_[i], hosts[i].digest,
                        "eth0", absl::Seconds(hosts[i].clock)});
    }
    rules_ = rules;
    reference_ = rules || hosts.empty() ? 0 : MostCommonNode(nodes_);
    found_ = FindDifferences(nodes_, reference_);
  }
  // Each node's variables: "NCCL_ALGO=Ring", "NCCL_X=#four"; "-": not
  // reported; "+": there are more.
  void CompareVariables(const std::vector<std::vector<std::string>>& nodes) {
    Compare(std::vector<Host>(nodes.size()));
    for (size_t i = 0; i < nodes.size(); ++i) {
      v1::CommunicationVariables& all = *facts_[i].mutable_communication();
      for (const std::string& entry : nodes[i]) {
        if (entry == "-") facts_[i].clear_communication();
        if (entry == "+") all.set_more(true);
        const size_t at = entry.find('=');
        if (at == std::string::npos) continue;
        v1::CommunicationVariable& variable = *all.add_variables();
        variable.set_name(entry.substr(0, at));
        if (entry[at + 1] == '#') {
          variable.set_digest(entry.substr(at + 2));
        } else {
          variable.set_value(entry.substr(at + 1));
        }
      }
    }
    reference_ = MostCommonNode(nodes_);
    found_ = FindDifferences(nodes_, reference_);
  }
  std::string Texts() const {
    std::vector<std::string> texts;
    for (const v1::Difference& difference : found_) {
      EXPECT_FALSE(difference.advice().empty());
      texts.push_back(DifferenceText(difference));
    }
    return absl::StrJoin(texts, " | ");
  }
  std::string Differing() const {
    std::vector<std::string> names;
    for (const auto& [name, text] :
         NodesThatDiffer(nodes_, found_, reference_, rules_)) {
      names.push_back(name);
    }
    return absl::StrJoin(names, ",");
  }

  std::vector<v1::Facts> facts_;
  std::vector<ComparedNode> nodes_;
  std::vector<v1::Difference> found_;
  size_t reference_ = 0;
  bool rules_ = false;
};

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

TEST_F(Differences, CommunicationVariablesAreComparedByName) {
  struct Row {
    // "NCCL_ALGO=Ring"; "-": the agent reports none; "+": it has more.
    std::vector<std::vector<std::string>> nodes;
    const char* expect;
  };
  const Row rows[] = {
      {{{}, {}, {}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}, {"NCCL_ALGO=Ring"}},
       "NCCL_ALGO: Ring on n0, n2; Tree on n1"},
      {{{}, {"NCCL_ALGO=Tree"}, {}},
       "NCCL_ALGO: not set on n0, n2; Tree on n1"},
      {{{"FI_A=1", "UCX_TLS=tcp"}, {"NCCL_ALGO=Tree", "UCX_TLS=rc"}},
       "FI_A: 1 on n0; not set on n1 | NCCL_ALGO: not set on n0; Tree on n1 | "
       "UCX_TLS: tcp on n0; rc on n1"},
      {{{"NCCL_DEBUG=INFO", "NCCL_HOSTID=a"}, {"NCCL_HOSTID=b"}}, ""},
      {{{"NCCL_X_TOKEN=#abcd"}, {"NCCL_X_TOKEN=#abcd"}}, ""},
      {{{"NCCL_X_TOKEN=#abcd"}, {"NCCL_X_TOKEN=#abce"}},
       "NCCL_X_TOKEN: not shown, digest 61626364 on n0; not shown, digest "
       "61626365 on n1"},
      // An older agent, and one that cannot report all.
      {{{"NCCL_ALGO=Ring"}, {"-"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"+"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree", "+"}},
       "NCCL_ALGO: Ring on n0; Tree on n1"},
  };
  for (const Row& row : rows) {
    CompareVariables(row.nodes);
    EXPECT_EQ(Texts(), row.expect);
  }
  CompareVariables({{}, {}, {"NCCL_ALGO=Tree"}});
  EXPECT_EQ(Differing(), "n2");
}

TEST_F(Differences, FilesAreComparedByTheirDigest) {
  struct Row {
    // The digest of "/f" on each node; "": it cannot be read; "-": not given.
    std::vector<std::string> digests;
    const char* expect;
    const char* excluded = "";
  };
  const Row rows[] = {
      {{"a", "a"}, ""},
      {{"-", "-"}, ""},
      {{"a", "-", "a"}, ""},
      {{"a", "b", "a"},
       "/f: SHA-256 616161616161, 5 bytes on n0, n2; SHA-256 626262626262, 5 "
       "bytes on n1",
       "n1"},
      {{"a", "b"},
       "/f: SHA-256 616161616161, 5 bytes on n0; SHA-256 626262626262, 5 bytes "
       "on n1"},
      {{"a", "", "a"},
       "/f: SHA-256 616161616161, 5 bytes on n0, n2; cannot be used: gone on "
       "n1",
       "n1"},
      {{"", "a"},
       "/f: cannot be used: gone on n0; SHA-256 616161616161, 5 bytes on n1",
       "n0"},
      {{"", "", "a"},
       "/f: cannot be used: gone on n0, n1; SHA-256 616161616161, 5 bytes on "
       "n2",
       "n0,n1"},
      {{"", ""}, "/f: cannot be used: gone on n0, n1", "n0,n1"},
  };
  for (const Row& row : rows) {
    Compare(std::vector<Host>(row.digests.size()));
    for (size_t i = 0; i < row.digests.size(); ++i) {
      const std::string& digest = row.digests[i];
      if (digest == "-") continue;
      v1::SameFile& file = *facts_[i].add_same_files();
      file.set_path("/f");
      file.set_size_bytes(5);
      if (digest.empty()) file.set_error("gone");
      if (!digest.empty()) file.set_sha256(std::string(32, digest[0]));
    }
    reference_ = MostCommonNode(nodes_);
    found_ = FindDifferences(nodes_, reference_);
    EXPECT_EQ(Texts(), row.expect);
    EXPECT_EQ(Differing(), row.excluded) << row.expect;
  }
}

// Also in a job that is not strict.
TEST_F(Differences, ANodeWithAnotherSharedFolderGetsNoSeat) {
  Compare({Host(), {.nccl = "2.1"}, Host(), Host()});
  const char digests[] = {'a', 'a', 'b', 'a'};
  for (size_t i = 0; i < 4; ++i) {
    v1::SameFile& folder = *facts_[i].add_same_files();
    folder.set_path("/data/");
    folder.set_sha256(std::string(32, digests[i]));
  }
  found_ = FindDifferences(nodes_, 0);
  EXPECT_EQ(Texts(),
            "NCCL version: 2.28.9 on n0, n2, n3; 2.1 on n1 | /data/: mark "
            "616161616161 on n0, n1, n3; mark 626262626262 on n2");
  const auto left_out = NodesThatDiffer(nodes_, found_, 0, true, false);
  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_EQ(left_out[0].first, "n2");
  EXPECT_EQ(Differing(), "n1,n2");
  // A newcomer as well.
  const ComparedNode other = nodes_[2];
  const SharedFacts shared({nodes_[0], nodes_[3]});
  EXPECT_TRUE(shared.FindDifference(other, false).has_value());
  EXPECT_FALSE(shared.FindDifference(nodes_[1], false).has_value());
}

TEST_F(Differences, TheNetworkPlansValueCountsWhereTheUserHasSetNone) {
  std::vector<v1::PlannedVariable> plan(1);
  plan[0].set_name("NCCL_IB_DISABLE");
  plan[0].set_value("1");
  const auto found = [&](const std::string& own) {
    CompareVariables({{"NCCL_IB_DISABLE=" + own}, {}});
    for (ComparedNode& node : nodes_) node.plan = &plan;
    found_ = FindDifferences(nodes_, 0);
    return Texts();
  };
  EXPECT_EQ(found("1"), "");
  EXPECT_EQ(found("0"), "NCCL_IB_DISABLE: 0 on n0; 1 on n1");
}

// The plan of a newcomer does not exist yet.
TEST_F(Differences, ANewcomersVariablesAreComparedWithWhatTheMembersGet) {
  std::vector<v1::PlannedVariable> plan(1);
  plan[0].set_name("NCCL_IB_DISABLE");
  plan[0].set_value("1");
  struct Row {
    // The last is the newcomer's; the others have the plan.
    std::vector<std::vector<std::string>> nodes;
    const char* expect;
  };
  const Row rows[] = {
      {{{}, {}, {}}, ""},
      {{{}, {}, {"NCCL_IB_DISABLE=1"}}, ""},
      {{{}, {}, {"NCCL_IB_DISABLE=0"}},
       "NCCL_IB_DISABLE: 1 on n0, n1; 0 on n2"},
      {{{"NCCL_IB_DISABLE=0"}, {"NCCL_IB_DISABLE=0"}, {}},
       "NCCL_IB_DISABLE: 0 on n0, n1; not set on n2"},
      {{{"NCCL_IB_DISABLE=1"}, {}, {}}, ""},
      // The members differ.
      {{{"NCCL_IB_DISABLE=0"}, {}, {"NCCL_IB_DISABLE=2"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}}, ""},
      {{{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}},
       "NCCL_ALGO: Ring on n0, n1; Tree on n2"},
      {{{}, {}, {"NCCL_ALGO=Tree"}},
       "NCCL_ALGO: not set on n0, n1; Tree on n2"},
      {{{}, {"+"}, {"NCCL_ALGO=Tree"}}, "NCCL_ALGO: not set on n0; Tree on n2"},
      {{{"-"}, {"-"}, {"NCCL_ALGO=Tree"}}, ""},
  };
  for (const Row& row : rows) {
    CompareVariables(row.nodes);
    ComparedNode newcomer = nodes_.back();
    nodes_.pop_back();
    for (ComparedNode& node : nodes_) node.plan = &plan;
    const auto found = SharedFacts(nodes_).FindDifference(newcomer);
    EXPECT_EQ(found.has_value() ? DifferenceText(*found) : "", row.expect);
  }
}

// One node cannot hide what the others set, nor fill the status.
TEST_F(Differences, ManyVariablesOfOneNodeHideNone) {
  const auto many = [](const std::string& prefix) {
    std::vector<std::string> variables;
    for (int i = 10; i < 74; ++i) {
      variables.push_back(absl::StrCat(prefix, i, "=x"));
    }
    return variables;
  };
  struct Row {
    std::vector<std::vector<std::string>> nodes;
    std::vector<std::string> named;
  };
  const Row rows[] = {
      // What two nodes set otherwise.
      {{many("FI_A"), {"NCCL_ALGO=Ring"}, {"NCCL_ALGO=Tree"}}, {"NCCL_ALGO"}},
      // What one other node sets and no third one.
      {{many("FI_A"), {"NCCL_ALGO=Ring"}, {}}, {"NCCL_ALGO", "FI_A10"}},
      {{many("FI_A"), many("FI_B"), {"NCCL_ALGO=Ring", "UCX_TLS=rc"}},
       {"NCCL_ALGO", "UCX_TLS", "FI_A10", "FI_B10"}},
      {{many("FI_A"),
        many("FI_B"),
        many("FI_C"),
        many("FI_D"),
        many("FI_E"),
        many("FI_F"),
        many("FI_G"),
        many("FI_H"),
        {"NCCL_ALGO=Ring"}},
       {"NCCL_ALGO"}},
  };
  for (const Row& row : rows) {
    CompareVariables(row.nodes);
    EXPECT_EQ(found_.size(), Limits::differing_variables_max);
    EXPECT_TRUE(std::is_sorted(
        found_.begin(), found_.end(),
        [](const auto& a, const auto& b) { return a.fact() < b.fact(); }));
    for (const std::string& name : row.named) {
      EXPECT_TRUE(absl::StrContains(Texts(), name)) << name << ": " << Texts();
    }
  }
}

TEST_F(Differences, MessagesStaySmall) {
  std::vector<Host> hosts;
  for (int i = 0; i < 1024; ++i) {
    hosts.push_back({.nccl = absl::StrCat("2.", i % 100)});
  }
  Compare(hosts);
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_EQ(found_[0].sides_size(), 8);
  EXPECT_EQ(found_[0].side_count(), 100u);
  EXPECT_EQ(found_[0].sides(0).node_count(), 11u);
  EXPECT_EQ(found_[0].sides(0).nodes_size(), 8);
  EXPECT_LT(found_[0].ByteSizeLong(), 2000u);
  Compare({Host(), {.model = std::string(10'000, 'g')}});
  ASSERT_EQ(found_.size(), 1u);
  EXPECT_LT(found_[0].ByteSizeLong(), 1000u);
}

}  // namespace
}  // namespace rollcall
