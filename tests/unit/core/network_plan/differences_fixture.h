// Hosts whose facts are compared.
#ifndef ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_DIFFERENCES_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_DIFFERENCES_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/network_plan/comparison/differences.h"

namespace rollcall {

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

inline v1::Facts FactsOf(const Host& host) {
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

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_DIFFERENCES_FIXTURE_H_
