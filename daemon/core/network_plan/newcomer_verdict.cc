#include "daemon/core/network_plan/newcomer_verdict.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/core/network_plan/cuts.h"

namespace rollcall {

NewcomerVerdict JudgeNewcomers(std::vector<PlanNode> nodes) {
  NewcomerVerdict verdict;
  const auto is_newcomer = [](const PlanNode& node) { return !node.stays; };
  while (std::any_of(nodes.begin(), nodes.end(), is_newcomer)) {
    std::vector<std::string> without;
    const absl::StatusOr<NetworkPlan> plan = PlanNetwork(nodes, &without);
    if (plan.ok()) break;
    const std::set<std::string> named(without.begin(), without.end());
    auto partners = CutPartners(nodes);
    const bool newcomers_named =
        std::any_of(nodes.begin(), nodes.end(), [&](const PlanNode& node) {
          return is_newcomer(node) && named.contains(node.node);
        });
    if (!newcomers_named) verdict.apart = without;
    const std::string reason =
        newcomers_named
            ? std::string(plan.status().message())
            : absl::StrCat("it waits because nodes of the running world do ",
                           "not reach each other: ", plan.status().message());
    std::vector<PlanNode> left;
    for (PlanNode& node : nodes) {
      if (is_newcomer(node) &&
          (!newcomers_named || named.contains(node.node))) {
        verdict.unreached.push_back(
            {node.node, reason, std::move(partners[node.node])});
      } else {
        left.push_back(std::move(node));
      }
    }
    CHECK_LT(left.size(), nodes.size());
    nodes = std::move(left);
  }
  for (const PlanNode& node : nodes) {
    if (is_newcomer(node)) verdict.reached.push_back(node.node);
  }
  return verdict;
}

}  // namespace rollcall
