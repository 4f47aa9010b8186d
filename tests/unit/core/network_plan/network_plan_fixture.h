// Facts and the reports of probers as text, for tests of the network plan.
#ifndef ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_NETWORK_PLAN_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_NETWORK_PLAN_FIXTURE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "daemon/core/network_plan/network_plan.h"

namespace rollcall {

// Facts from "eth0=10.0.0.1/24 docker0=172.17.0.1/16". Each interface is up.
inline v1::Facts FactsOf(const std::string& boot, const std::string& text) {
  v1::Facts facts;
  facts.set_boot_id(boot);
  const std::vector<std::string> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::vector<std::string> parts =
        absl::StrSplit(word, absl::ByAnyChar("=/"));
    v1::Interface& interface = *facts.add_interfaces();
    interface.set_name(parts[0]);
    interface.set_up(true);
    interface.set_loopback(parts[0] == "lo");
    v1::InterfaceAddress& address = *interface.add_addresses();
    address.set_address(parts[1]);
    address.set_prefix_length(static_cast<uint32_t>(std::stoi(parts[2])));
  }
  return facts;
}

using Reports = std::map<std::string, ProbeReport>;

inline Reports ReportsOf(const std::string& text) {
  Reports reports;
  const std::vector<std::string> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::vector<std::string> parts = absl::StrSplit(word, '=');
    ProbeReport& report = reports[parts[0]];
    report.answered = parts[1] != "?";
    if (!report.answered) continue;
    for (const absl::string_view address :
         absl::StrSplit(parts[1], ',', absl::SkipEmpty())) {
      report.found[std::string(address)].reached = true;
    }
  }
  return reports;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_NETWORK_PLAN_NETWORK_PLAN_FIXTURE_H_
