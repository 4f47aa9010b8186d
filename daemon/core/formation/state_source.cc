#include "daemon/core/formation/state_source.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// At most this many claims are named as not believed.
constexpr size_t kDoubtsMax = 8;

StateClaim::From OriginOf(const Node& node, const Generations& generations) {
  if (node.served_in != 0 && node.served_in == generations.ran()) {
    return StateClaim::From::kEnded;
  }
  return node.served_in != 0 || !generations.knows_all_worlds()
             ? StateClaim::From::kEarlier
             : StateClaim::From::kNewcomer;
}

}  // namespace

StateChoice ChooseStateSource(const std::vector<StateClaim>& claims) {
  StateChoice choice;
  using From = StateClaim::From;
  bool any_served = false;
  std::vector<uint64_t> steps;
  for (const StateClaim& claim : claims) {
    any_served = any_served || claim.from != From::kNewcomer;
    if (claim.from == From::kEnded) steps.push_back(claim.step);
  }
  if (steps.size() >= kStateClaimsToCompare) {
    // With an even number, the lower one of the two in the middle.
    const auto middle = steps.begin() + (steps.size() - 1) / 2;
    std::nth_element(steps.begin(), middle, steps.end());
    choice.median = *middle;
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    const uint64_t step = claims[i].step;
    const bool too_far = choice.median.has_value() && step > *choice.median &&
                         step - *choice.median > 1;
    const bool newcomer = claims[i].from == From::kNewcomer;
    if (too_far || (any_served && newcomer)) {
      choice.disbelieved.push_back(i);
    } else if (!choice.source.has_value() ||
               step > claims[*choice.source].step) {
      choice.source = i;
    }
  }
  return choice;
}

// Each node makes one claim. Claims in the order of node ranks are also in the
// order of seats.
SourceChoice ChooseSource(const v1::World& world, const Membership& membership,
                          const Generations& generations) {
  std::vector<const v1::Member*> rows;
  std::vector<StateClaim> claims;
  for (const v1::Member& member : world.members()) {
    const Node& node = membership.At(member.node());
    if (!node.ranks.state_held.has_value()) continue;
    rows.push_back(&member);
    claims.push_back(
        {node.ranks.state_held->completed_step(), OriginOf(node, generations)});
  }
  const StateChoice choice = ChooseStateSource(claims);
  SourceChoice chosen;
  for (const size_t at : choice.disbelieved) {
    if (chosen.doubts.size() == kDoubtsMax) break;
    const std::string& name = rows[at]->node();
    const std::string compared =
        claims[at].from == StateClaim::From::kNewcomer
            ? "was in no world of this run"
            : absl::StrCat("the median of the world that ended is step ",
                           choice.median.value_or(0));
    chosen.doubts.push_back(
        {name,
         absl::StrCat("node ", name, " reports that a rank of it holds ",
                      "the state of step ", claims[at].step, ", and ", compared,
                      "; its ranks take the state of the others")});
  }
  if (!choice.source.has_value()) return chosen;
  const v1::Member& member = *rows[*choice.source];
  const v1::RankState& state = *membership.At(member.node()).ranks.state_held;
  chosen.source.emplace();
  chosen.source->set_rank(member.first_rank() + state.local_rank());
  chosen.source->set_step(state.completed_step());
  return chosen;
}

}  // namespace rollcall
