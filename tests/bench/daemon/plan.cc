// Measures how long the network plan of a large world takes. Each node has
// eight RDMA ports, an interface that its peers reach, and a bridge. Each node
// is probed by as many nodes as the daemon would choose. Argument: the number
// of nodes, 1024 by default.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/network_plan/probing/probing.h"

namespace rollcall {
namespace {

constexpr int kRuns = 11;

std::string Address(int i) {
  return absl::StrCat("10.", 1 + i / 250, ".", i % 250 + 1, ".7");
}

v1::Facts Facts(int i) {
  v1::Facts facts;
  facts.set_hostname(absl::StrCat("node", i));
  facts.set_boot_id(absl::StrCat("boot", i));
  for (const char* name : {"lo", "eth0", "docker0"}) {
    v1::Interface& interface = *facts.add_interfaces();
    interface.set_name(name);
    interface.set_up(true);
    interface.set_loopback(std::string(name) == "lo");
    v1::InterfaceAddress& address = *interface.add_addresses();
    address.set_prefix_length(8);
    address.set_address(std::string(name) == "eth0"      ? Address(i)
                        : std::string(name) == "docker0" ? "172.17.0.1"
                                                         : "127.0.0.1");
  }
  for (int port = 0; port < 8; ++port) {
    v1::InfinibandPort& rail = *facts.add_infiniband();
    rail.set_device(absl::StrCat("mlx5_", port));
    rail.set_port(1);
    rail.set_state("ACTIVE");
    rail.set_link_layer("InfiniBand");
    rail.set_rate_gbps(400);
    v1::Gid& gid = *rail.add_gids();
    gid.set_type("IB");
    gid.set_address(absl::StrCat("fe80::", i, ":", port));
  }
  return facts;
}

void Main(int count) {
  std::vector<v1::Facts> facts;
  for (int i = 0; i < count; ++i) facts.push_back(Facts(i));
  std::vector<ProbeNode> probed;
  for (int i = 0; i < count; ++i) {
    probed.push_back({facts[i].hostname(), 1, {Address(i)}, 40000});
  }
  Probing probing;
  const auto asked = probing.Begin(
      probed,
      [](uint64_t round, const std::string& word) {
        std::string secret =
            absl::StrCat(round, std::hash<std::string>()(word));
        secret.resize(Limits::probe_bytes, 'x');
        return secret;
      },
      absl::UnixEpoch(), absl::Seconds(2));
  const std::map<std::string, v1::Probe> probes(asked.begin(), asked.end());
  size_t pairs = 0;
  for (const auto& [name, probe] : asked) {
    v1::Probed said;
    said.set_probe(probe.probe());
    for (const v1::ProbeTarget& target : probe.targets()) {
      ++pairs;
      v1::ProbeResult& result = *said.add_results();
      result.set_node(target.node());
      result.set_address(target.addresses(0));
      result.set_answer(
          AnswerAt(probes.at(target.node()), target.addresses(0)));
    }
    probing.Take(name, said, absl::UnixEpoch());
  }
  std::vector<PlanNode> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.push_back({facts[i].hostname(), &facts[i], Address(i), false,
                     probing.Of(facts[i].hostname())});
  }
  std::vector<absl::Duration> took;
  for (int run = 0; run < kRuns; ++run) {
    const absl::Time begun = absl::Now();
    const auto plan = PlanNetwork(nodes);
    took.push_back(absl::Now() - begun);
    if (!plan.ok() || plan->nodes.back().address != Address(count - 1)) {
      std::fprintf(stderr, "plan: %s\n", plan.status().ToString().c_str());
      std::exit(1);
    }
  }
  std::sort(took.begin(), took.end());
  std::printf(
      "plan: %d nodes with 8 RDMA ports, %zu probed pairs\n"
      "  network plan       median %6.1f ms   worst %6.1f ms   "
      "(wanted of 1,024: at most 50 ms)\n\n",
      count, pairs, absl::ToDoubleMilliseconds(took[kRuns / 2]),
      absl::ToDoubleMilliseconds(took.back()));
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  rollcall::Main(argc > 1 ? std::atoi(argv[1]) : 1024);
}
