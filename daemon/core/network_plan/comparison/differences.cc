#include "daemon/core/network_plan/comparison/differences.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// At most this many nodes of one side are named; the total count is reported
// too.
constexpr size_t kNodesNamedMax = 8;
constexpr int kSidesMax = 8;

// The nodes that have one value. Sides are in the order of their first nodes;
// nodes that do not know the fact are in no side.
struct Side {
  std::string value;
  std::vector<const ComparedNode*> nodes;
};

std::vector<Side> SidesOf(const ComparedFact& compared,
                          const std::vector<ComparedNode>& nodes) {
  std::vector<Side> sides;
  std::map<std::string, size_t> at;
  for (const ComparedNode& node : nodes) {
    const std::string value = compared.value_of(node);
    if (value.empty()) continue;
    const auto [found, fresh] = at.try_emplace(value, sides.size());
    if (fresh) sides.push_back({value, {}});
    sides[found->second].nodes.push_back(&node);
  }
  return sides;
}

// "7 InfiniBand; mlx5_3:1 DOWN", or with the details of each node where they
// differ: "7 InfiniBand; c: mlx5_3:1 DOWN; d: mlx5_5:1 DOWN".
std::string SideText(const ComparedFact& compared, const Side& side) {
  if (compared.detail == nullptr) return side.value;
  std::vector<std::string> details;
  bool alike = true;
  for (const ComparedNode* node : side.nodes) {
    if (details.size() == kNodesNamedMax) break;
    details.push_back(compared.detail(*node));
    alike = alike && details.back() == details.front();
  }
  std::string text;
  for (size_t i = 0; i < details.size(); ++i) {
    if (details[i].empty() || (alike && i > 0)) continue;
    absl::StrAppend(&text, "; ",
                    alike ? "" : absl::StrCat(side.nodes[i]->node, ": "),
                    details[i]);
  }
  return ShortenedValue(absl::StrCat(side.value, text));
}

v1::Difference DifferenceOf(const ComparedFact& compared,
                            const std::vector<Side>& sides) {
  v1::Difference difference;
  difference.set_fact(compared.fact);
  difference.set_advice(compared.advice);
  difference.set_side_count(static_cast<uint32_t>(sides.size()));
  for (const Side& side : sides) {
    if (difference.sides_size() == kSidesMax) break;
    v1::DifferenceSide& told = *difference.add_sides();
    told.set_value(SideText(compared, side));
    told.set_node_count(static_cast<uint32_t>(side.nodes.size()));
    const size_t named = std::min(side.nodes.size(), kNodesNamedMax);
    for (size_t i = 0; i < named; ++i) told.add_nodes(side.nodes[i]->node);
  }
  return difference;
}

// The reference's side. If it cannot use the file and does not rule, the
// largest side that can.
const Side& RightSide(const std::vector<Side>& sides,
                      const std::string& of_reference, bool rules) {
  const auto own = std::find_if(
      sides.begin(), sides.end(),
      [&](const Side& side) { return side.value == of_reference; });
  if (rules || !CannotUse(of_reference)) return *own;
  const auto best = std::max_element(
      sides.begin(), sides.end(), [](const Side& a, const Side& b) {
        return std::pair(!CannotUse(a.value), a.nodes.size()) <
               std::pair(!CannotUse(b.value), b.nodes.size());
      });
  return CannotUse(best->value) ? *own : *best;
}

}  // namespace

std::vector<v1::Difference> FindDifferences(
    const std::vector<ComparedNode>& nodes, size_t reference) {
  std::vector<v1::Difference> differences;
  size_t variables = 0;
  for (const ComparedFact& compared : AllComparedFacts(nodes)) {
    std::vector<Side> sides = SidesOf(compared, nodes);
    // A file that no node can use is named too.
    const bool none = sides.size() == 1 && CannotUse(sides[0].value);
    if (sides.size() < 2 && !none) continue;
    if (compared.is_variable() &&
        ++variables > Limits::differing_variables_max) {
      --variables;
      break;
    }
    const std::string first = compared.value_of(nodes[reference]);
    std::stable_sort(sides.begin(), sides.end(),
                     [&](const Side& a, const Side& b) {
                       return std::pair(a.value == first, a.nodes.size()) >
                              std::pair(b.value == first, b.nodes.size());
                     });
    differences.push_back(DifferenceOf(compared, sides));
  }
  std::sort(differences.end() - static_cast<ptrdiff_t>(variables),
            differences.end(),
            [](const v1::Difference& a, const v1::Difference& b) {
              return a.fact() < b.fact();
            });
  return differences;
}

SharedFacts::SharedFacts(const std::vector<ComparedNode>& members) {
  std::vector<ComparedFact> all = AllComparedFacts(members);
  for (const ComparedFact& compared : all) {
    if (compared.is_variable()) variables_.insert(compared.fact);
  }
  const bool all_variables = variables_.size() < Limits::compared_variables_max;
  for (const ComparedNode& member : members) {
    if (member.plan == nullptr) continue;
    for (const v1::PlannedVariable& planned : *member.plan) {
      if (!IsSharedVariable(planned.name()) ||
          !variables_.insert(planned.name()).second) {
        continue;
      }
      all.push_back(ComparedVariable(planned.name().c_str()));
    }
  }
  const auto take = [&](const ComparedFact& compared) -> std::optional<Shared> {
    const std::vector<Side> sides = SidesOf(compared, members);
    if (sides.size() != 1) return std::nullopt;
    const bool planned =
        compared.is_variable() &&
        std::any_of(members.begin(), members.end(), [&](const auto& member) {
          return !SetsVariable(member, compared.fact) &&
                 PlanSetsVariable(member, compared.fact);
        });
    return Shared{sides.front().value, planned, DifferenceOf(compared, sides)};
  };
  for (const ComparedFact& compared : all) {
    if (!compared.strict) continue;
    if (auto shared = take(compared)) shared_.push_back(*std::move(shared));
  }
  if (all_variables) unset_ = take(ComparedVariable(""));
}

std::optional<v1::Difference> SharedFacts::FindDifference(
    const ComparedNode& newcomer, bool strict) const {
  const auto differs =
      [&](const Shared& shared,
          const std::string& fact) -> std::optional<v1::Difference> {
    const ComparedFact compared = ComparedFactOf(fact);
    if (!strict && !compared.required()) return std::nullopt;
    if (shared.planned && !SetsVariable(newcomer, fact)) {
      return std::nullopt;
    }
    const std::string value = compared.value_of(newcomer);
    if (value.empty() || value == shared.value) return std::nullopt;
    v1::Difference difference = shared.difference;
    difference.set_fact(fact);
    const v1::Difference own = DifferenceOf(compared, {{value, {&newcomer}}});
    *difference.add_sides() = own.sides(0);
    difference.set_side_count(2);
    return difference;
  };
  for (const Shared& shared : shared_) {
    if (auto found = differs(shared, shared.difference.fact())) return found;
  }
  if (!unset_.has_value()) return std::nullopt;
  for (const char* const name : ComparedVariables({newcomer})) {
    if (variables_.contains(name)) continue;
    if (auto found = differs(*unset_, name)) return found;
  }
  return std::nullopt;
}

size_t MostCommonNode(const std::vector<ComparedNode>& nodes) {
  // By node: how many times it is in a minority, and how many facts it knows.
  std::map<std::string_view, std::pair<size_t, size_t>> counts;
  for (const ComparedFact& compared : AllComparedFacts(nodes)) {
    const std::vector<Side> sides = SidesOf(compared, nodes);
    size_t most = 0;
    for (const Side& side : sides) most = std::max(most, side.nodes.size());
    for (const Side& side : sides) {
      for (const ComparedNode* node : side.nodes) {
        auto& [minorities, known] = counts[node->node];
        minorities += side.nodes.size() != most;
        ++known;
      }
    }
  }
  size_t best = 0;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const auto& [minorities, known] = counts[nodes[i].node];
    const auto& [minorities_best, known_best] = counts[nodes[best].node];
    if (std::pair(minorities, known_best) < std::pair(minorities_best, known)) {
      best = i;
    }
  }
  return best;
}

std::string DifferenceText(const v1::Difference& difference) {
  std::vector<std::string> sides;
  for (const v1::DifferenceSide& side : difference.sides()) {
    const uint32_t more =
        side.node_count() - static_cast<uint32_t>(side.nodes_size());
    sides.push_back(
        absl::StrCat(side.value(), " on ", absl::StrJoin(side.nodes(), ", "),
                     more > 0 ? absl::StrCat(" and ", more, " more") : ""));
  }
  const uint32_t more =
      difference.side_count() - static_cast<uint32_t>(difference.sides_size());
  return absl::StrCat(
      difference.fact(), ": ", absl::StrJoin(sides, "; "),
      more > 0 ? absl::StrCat("; and ", more, " other values") : "");
}

std::vector<std::pair<std::string, std::string>> NodesThatDiffer(
    const std::vector<ComparedNode>& nodes,
    const std::vector<v1::Difference>& differences, size_t reference,
    bool rules, bool strict) {
  if (differences.empty()) return {};
  std::map<std::string_view, const v1::Difference*> first;
  const std::vector<ComparedFact> all = AllComparedFacts(nodes);
  for (const v1::Difference& difference : differences) {
    const auto compared =
        std::find_if(all.begin(), all.end(), [&](const ComparedFact& each) {
          return each.fact == difference.fact();
        });
    const std::string of_reference = compared->value_of(nodes[reference]);
    if (!compared->strict || of_reference.empty()) continue;
    if (!strict && !compared->required()) continue;
    const std::vector<Side> sides = SidesOf(*compared, nodes);
    const Side& right = RightSide(sides, of_reference, rules);
    for (const Side& side : sides) {
      const bool outvoted = right.nodes.size() > side.nodes.size();
      if (&side == &right ? rules || !CannotUse(side.value)
                          : !(rules || outvoted || CannotUse(side.value))) {
        continue;
      }
      for (const ComparedNode* node : side.nodes) {
        first.try_emplace(node->node, &difference);
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> differing;
  for (const ComparedNode& node : nodes) {
    const auto at = first.find(node.node);
    if (at == first.end()) continue;
    differing.emplace_back(node.node, DifferenceText(*at->second));
  }
  return differing;
}

}  // namespace rollcall
