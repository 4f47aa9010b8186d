#include "daemon/core/network_plan/preflight.h"

#include <algorithm>
#include <cstddef>
#include <deque>

#include "daemon/core/network_plan/comparison/differences.h"

namespace rollcall {

Preflight::Verdict Preflight::Judge(const std::vector<PlanNode>& nodes,
                                    const NetworkPlan& plan,
                                    const Membership& membership,
                                    const v1::JobSettings& settings) {
  const v1::Preflight mode = settings.preflight();
  if (mode == v1::PREFLIGHT_OFF) return {};
  std::vector<ComparedNode> compared;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = membership.At(nodes[i].node);
    compared.push_back({nodes[i].node, nodes[i].facts,
                        node.hello.command_digest(), plan.nodes[i].interface,
                        node.clock_offset, &plan.nodes[i].variables,
                        &settings});
  }
  // The launcher's node always has a seat, so the other nodes are compared with
  // it.
  const auto launcher =
      std::find_if(nodes.begin(), nodes.end(),
                   [](const PlanNode& node) { return node.launcher; });
  const bool rules = launcher != nodes.end();
  const size_t reference = rules ? static_cast<size_t>(launcher - nodes.begin())
                                 : MostCommonNode(compared);
  std::vector<v1::Difference> found = FindDifferences(compared, reference);
  // The world is formed without the nodes that differ. These nodes still have
  // to be fixed, so differences_ is kept.
  if (found.empty() &&
      std::any_of(
          membership.nodes().begin(), membership.nodes().end(),
          [](const auto& entry) { return entry.second.exclusion.differs; })) {
    return {};
  }
  const auto told = [&](const v1::Difference& difference) {
    return std::any_of(differences_.begin(), differences_.end(),
                       [&](const v1::Difference& before) {
                         return DifferenceText(before) ==
                                DifferenceText(difference);
                       });
  };
  Verdict verdict;
  for (const v1::Difference& difference : found) {
    if (!told(difference)) verdict.fresh.push_back(difference);
  }
  differences_ = std::move(found);
  verdict.excluded = NodesThatDiffer(compared, differences_, reference, rules,
                                     mode == v1::PREFLIGHT_STRICT);
  return verdict;
}

std::optional<std::string> Preflight::JudgeNewcomer(
    const Node& newcomer, const Membership& membership, const v1::World& world,
    const v1::JobSettings& settings) {
  const bool strict = settings.preflight() == v1::PREFLIGHT_STRICT;
  // Without files of --same and folders of --shared, only a strict job leaves
  // nodes out, and the members need not be looked at.
  const bool judged = strict || !newcomer.hello.facts().same_files().empty();
  if (settings.preflight() == v1::PREFLIGHT_OFF || !judged ||
      newcomer.exclusion.differs || newcomer.hello.launcher()) {
    return std::nullopt;
  }
  const auto compared = [&settings](
                            const Node& node,
                            const std::vector<v1::PlannedVariable>* plan) {
    return ComparedNode{
        node.name(), &node.hello.facts(), node.hello.command_digest(),
        "",          std::nullopt,        plan,
        &settings};
  };
  if (shared_generation_ != world.generation()) {
    std::deque<std::vector<v1::PlannedVariable>> plans;
    std::vector<ComparedNode> members;
    for (const v1::Member& member : world.members()) {
      const Node* const node = membership.Find(member.node());
      if (node == nullptr || !node->member() || node->session == 0) continue;
      plans.emplace_back(member.plan().begin(), member.plan().end());
      members.push_back(compared(*node, &plans.back()));
    }
    shared_ = SharedFacts(members);
    if (members.size() == static_cast<size_t>(world.members_size())) {
      shared_generation_ = world.generation();
    }
  }
  // The difference is not added to differences_, which belong to the formed
  // world.
  const std::optional<v1::Difference> difference =
      shared_.FindDifference(compared(newcomer, nullptr), strict);
  if (!difference.has_value()) return std::nullopt;
  return DifferenceText(*difference);
}

}  // namespace rollcall
