#include "daemon/core/state_source.h"

#include <algorithm>

namespace rollcall {

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
    // The lower one of the two in the middle.
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

}  // namespace rollcall
