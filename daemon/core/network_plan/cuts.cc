#include "daemon/core/network_plan/cuts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {
namespace {

const ProbeReport& ReportOf(const PlanNode& prober, const PlanNode& target) {
  return target.probed->at(prober.node);
}

// "b cannot reach a at 10.0.0.1 (connection refused)".
std::string CutText(const PlanNode& prober, const PlanNode& target) {
  const ProbeReport& report = ReportOf(prober, target);
  if (!report.answered) {
    return absl::StrCat(prober.node, " has not reported whether it reaches ",
                        target.node);
  }
  std::vector<std::string> at;
  for (const UsableAddress& u : UsableAddresses(target)) {
    if (at.size() == kPlanNamedMax) break;
    if (IsReached(report, u.address)) continue;
    const auto found = report.found.find(u.address);
    const bool said =
        found != report.found.end() && !found->second.error.empty();
    at.push_back(absl::StrCat(u.address, " (",
                              said ? found->second.error : "no answer", ")"));
  }
  return absl::StrCat(prober.node, " cannot reach ", target.node, " at ",
                      absl::StrJoin(at, ", "));
}

// Whether the node connects from an address that none of its interfaces has.
bool IsBehindNat(const PlanNode& node) {
  return !IsUnusable(node.observed_address) &&
         !HasInterfaceAt(node, node.observed_address);
}

std::string NatText(const std::vector<PlanNode>& nodes,
                    const std::set<size_t>& concerned) {
  std::vector<std::string> behind;
  for (const size_t i : concerned) {
    if (!IsBehindNat(nodes[i]) || behind.size() == kPlanNamedMax) continue;
    behind.push_back(absl::StrCat(nodes[i].node, " connects from ",
                                  nodes[i].observed_address));
  }
  if (behind.empty()) return "";
  return absl::StrCat("; network address translation is the likely cause, ",
                      absl::StrJoin(behind, ", "),
                      ", which is on none of its interfaces");
}

}  // namespace

std::vector<Cut> CutsOf(const std::vector<PlanNode>& nodes,
                        const std::vector<std::string>& addresses) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i].node] = i;
  std::vector<Cut> cuts;
  for (size_t target = 0; target < nodes.size(); ++target) {
    if (nodes[target].probed == nullptr) continue;
    for (const auto& [prober, report] : *nodes[target].probed) {
      const auto at = places.find(prober);
      if (at == places.end()) continue;
      const bool reached =
          addresses.empty()
              ? std::any_of(report.found.begin(), report.found.end(),
                            [](const auto& one) { return one.second.reached; })
              : IsReached(report, addresses[target]);
      if (!reached) cuts.push_back({at->second, target});
    }
  }
  return cuts;
}

std::vector<std::string> WithoutCuts(const std::vector<PlanNode>& nodes,
                                     const std::vector<Cut>& cuts) {
  struct Count {
    size_t cuts = 0;
    size_t complaints = 0;
  };
  std::map<size_t, Count> counts;
  std::map<size_t, std::vector<size_t>> cuts_of;
  for (size_t i = 0; i < cuts.size(); ++i) {
    ++counts[cuts[i].prober].cuts;
    ++counts[cuts[i].prober].complaints;
    ++counts[cuts[i].target].cuts;
    cuts_of[cuts[i].prober].push_back(i);
    cuts_of[cuts[i].target].push_back(i);
  }
  const auto rank = [&](const auto& entry) {
    const auto& [at, count] = entry;
    return std::tuple(count.cuts > 0, !nodes[at].launcher, !nodes[at].stays,
                      count.cuts, count.complaints);
  };
  std::vector<bool> gone(cuts.size());
  size_t left = cuts.size();
  std::vector<std::string> without;
  while (left > 0) {
    const size_t worst = std::max_element(counts.begin(), counts.end(),
                                          [&](const auto& a, const auto& b) {
                                            return rank(a) < rank(b);
                                          })
                             ->first;
    without.push_back(nodes[worst].node);
    for (const size_t i : cuts_of[worst]) {
      if (gone[i]) continue;
      gone[i] = true;
      --left;
      --counts[cuts[i].prober].cuts;
      --counts[cuts[i].prober].complaints;
      --counts[cuts[i].target].cuts;
    }
  }
  return without;
}

std::map<std::string, std::set<std::string>> CutPartners(
    const std::vector<PlanNode>& nodes) {
  std::map<std::string, std::set<std::string>> partners;
  for (const Cut& cut : CutsOf(nodes, {})) {
    partners[nodes[cut.prober].node].insert(nodes[cut.target].node);
    partners[nodes[cut.target].node].insert(nodes[cut.prober].node);
  }
  return partners;
}

absl::Status Unreachable(const std::vector<PlanNode>& nodes,
                         const std::vector<Cut>& cuts) {
  std::vector<std::string> named;
  // The targets of probers that have reported.
  std::set<size_t> concerned;
  for (const Cut& cut : cuts) {
    if (ReportOf(nodes[cut.prober], nodes[cut.target]).answered) {
      concerned.insert(cut.target);
    }
    if (named.size() == kPlanNamedMax) continue;
    named.push_back(CutText(nodes[cut.prober], nodes[cut.target]));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      absl::StrJoin(named, "; "),
      cuts.size() > named.size()
          ? absl::StrCat("; and ", cuts.size() - named.size(), " more pairs")
          : "",
      NatText(nodes, concerned),
      concerned.empty()
          ? "; expected a report in time; its agent's log may say why"
          : "; expected one address of each node that all others reach by TCP "
            "on any port; check firewalls and routes, or start without these "
            "nodes"));
}

}  // namespace rollcall
