#include "daemon/core/network_plan/facts_change.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/network_plan.h"

namespace rollcall {
namespace {

// All facts that a probe of the node depends on: its location, and the
// addresses at which others may reach it. Interfaces of containers are left
// out, because they come and go.
std::set<std::string> ProbedPart(const v1::Facts& facts,
                                 const std::string& observed_address) {
  std::set<std::string> part = {
      absl::StrCat("port ", facts.probe_port()),
      absl::StrCat("platform ", facts.advertised_address()),
      absl::StrCat("machine ", facts.boot_id(), " ",
                   facts.network_namespace())};
  const std::vector<std::string> addresses =
      CandidateAddresses(PlanNode{"", &facts, observed_address});
  const std::set<std::string> candidates(addresses.begin(), addresses.end());
  for (const v1::Interface& interface : facts.interfaces()) {
    for (const v1::InterfaceAddress& at : interface.addresses()) {
      if (!candidates.contains(at.address())) continue;
      part.insert(absl::StrCat(interface.name(), " ", at.address()));
    }
  }
  return part;
}

bool SamePorts(const v1::Facts& a, const v1::Facts& b) {
  return std::equal(
      a.infiniband().begin(), a.infiniband().end(), b.infiniband().begin(),
      b.infiniband().end(),
      [](const v1::InfinibandPort& one, const v1::InfinibandPort& other) {
        return one.SerializeAsString() == other.SerializeAsString();
      });
}

}  // namespace

FactsChange ChangeOf(const v1::Facts& before, const v1::Facts& after,
                     const std::string& observed_address) {
  if (ProbedPart(before, observed_address) !=
      ProbedPart(after, observed_address)) {
    return FactsChange::kAddresses;
  }
  return SamePorts(before, after) ? FactsChange::kNone : FactsChange::kPorts;
}

}  // namespace rollcall
