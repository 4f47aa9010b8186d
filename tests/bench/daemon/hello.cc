#include "tests/bench/daemon/hello.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rollcall::bench {

const char kJob[] = "bench";

v1::JoinToken BenchToken() {
  v1::JoinToken token;
  token.set_id("bench0");
  token.set_secret(std::string(16, 'b'));
  return token;
}

v1::Hello HelloOf(int index) {
  v1::Hello hello;
  hello.set_job(kJob);
  hello.set_node(absl::StrCat("crowd-", index));
  hello.set_incarnation(index);
  *hello.mutable_token() = BenchToken();
  hello.set_ranks(kRanks);
  hello.set_command_digest(std::string(32, 'd'));
  hello.set_version(ROLLCALL_VERSION);
  v1::Facts& facts = *hello.mutable_facts();
  facts.set_hostname(hello.node());
  const std::string tail =
      absl::StrCat(index >> 16 & 255, ".", index >> 8 & 255, ".", index & 255);
  for (int net : {10, 11}) {
    v1::Interface& interface = *facts.add_interfaces();
    interface.set_name(absl::StrCat("eth", net - 10));
    interface.set_mtu(9000);
    interface.set_speed_mbps(100000);
    interface.set_up(true);
    interface.set_running(true);
    v1::InterfaceAddress& four = *interface.add_addresses();
    four.set_address(absl::StrCat(net, ".", tail));
    four.set_prefix_length(8);
    v1::InterfaceAddress& six = *interface.add_addresses();
    six.set_address(absl::StrFormat("fd%d::%x", net, index));
    six.set_prefix_length(64);
  }
  facts.set_boot_id(absl::StrCat("boot-of-", index));
  facts.set_network_namespace(index);
  facts.set_probe_port(40000);
  facts.mutable_versions()->set_kernel("6.1.0-18-amd64");
  facts.mutable_versions()->set_rollcall(ROLLCALL_VERSION);
  facts.set_cpu_count(64);
  return hello;
}

}  // namespace rollcall::bench
