#include "daemon/core/network_plan/join_endpoints.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

// "eth0=10.0.0.1,fe80::1 lo=127.0.0.1": each interface is up. A * marks the one
// with the default route, and a - one that is down.
v1::Facts FactsOf(const std::string& text) {
  v1::Facts facts;
  for (const absl::string_view word :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, '=');
    v1::Interface& interface = *facts.add_interfaces();
    std::string name = parts[0];
    interface.set_default_route(name.back() == '*');
    interface.set_up(name.back() != '-');
    if (name.back() == '*' || name.back() == '-') name.pop_back();
    interface.set_name(name);
    interface.set_loopback(name == "lo");
    for (const absl::string_view address : absl::StrSplit(parts[1], ',')) {
      interface.add_addresses()->set_address(std::string(address));
    }
  }
  return facts;
}

TEST(JoinEndpoints, AreThoseThatPeersReach) {
  struct {
    const char* what;
    const char* listen;
    const char* interfaces;
    const char* expected;
  } const rows[] = {
      {"the default route's first",
       "::", "lo=127.0.0.1,::1 ib0=10.1.0.5 eth0*=192.168.0.5",
       "192.168.0.5:7 10.1.0.5:7"},
      {"IPv4 before IPv6", "::", "eth0=2001:db8::5,10.0.0.5 eth1=10.2.0.5",
       "10.0.0.5:7 10.2.0.5:7 [2001:db8::5]:7"},
      {"no IPv6 where none is listened on", "0.0.0.0",
       "eth0=2001:db8::5,10.0.0.5", "10.0.0.5:7"},
      {"no link-local address", "::", "eth0=fe80::1,169.254.3.4,10.0.0.5",
       "10.0.0.5:7"},
      {"no bridge inside this machine", "::",
       "docker0=172.17.0.1 br-5f3c0123abcd=172.18.0.1 virbr0=192.168.122.1 "
       "cni0=10.88.0.1 eth0=10.0.0.5",
       "10.0.0.5:7"},
      {"a bridge, where there is nothing else", "",
       "lo=127.0.0.1 docker0=172.17.0.1", "172.17.0.1:7"},
      {"no interface that is down", "*", "eth1-=10.2.0.5 eth0=10.0.0.5",
       "10.0.0.5:7"},
      {"loopback, where there is nothing at all", "::", "lo=127.0.0.1,::1",
       "127.0.0.1:7"},
      {"nothing is known", "::", "", "127.0.0.1:7"},
      {"eight at most", "::",
       "eth0=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,"
       "10.0.0.8,10.0.0.9",
       "10.0.0.1:7 10.0.0.2:7 10.0.0.3:7 10.0.0.4:7 10.0.0.5:7 10.0.0.6:7 "
       "10.0.0.7:7 10.0.0.8:7"},
      {"the address that is listened on", "127.0.0.1", "eth0=10.0.0.5",
       "127.0.0.1:7"},
      {"the same, IPv6", "2001:db8::5", "eth0=10.0.0.5", "[2001:db8::5]:7"},
      {"a name", "head.example", "eth0=10.0.0.5", "head.example:7"},
  };
  for (const auto& row : rows) {
    const v1::Facts facts = FactsOf(row.interfaces);
    EXPECT_EQ(
        absl::StrJoin(JoinEndpoints(row.listen, 7, facts.interfaces()), " "),
        row.expected)
        << row.what;
  }
}

}  // namespace
}  // namespace rollcall
