#include "daemon/core/failures/progress.h"

#include <algorithm>
#include <cstddef>

namespace rollcall {

bool Progress::TakeStep(Node& node, const v1::World& world,
                        const Membership& membership) {
  if (!node.step_before.has_value()) node.step_before = node.step;
  if (node.node_rank == 0) {
    step_ = node.step;
    return true;
  }
  // Node rank 0 may have finished, left and been removed.
  const Node* const first = membership.Find(world.members(0).node());
  if (first != nullptr && first->step != 0) return false;
  step_ = std::max(step_, node.step);
  return true;
}

bool Progress::TakePace(const v1::Pace& pace) {
  const bool same = pace_.has_value() && pace_->loss() == pace.loss() &&
                    pace_->tokens_per_second() == pace.tokens_per_second() &&
                    pace_->steps() == pace.steps();
  pace_ = pace;
  return !same;
}

bool HasProgressed(const Membership& membership, const Node* failing) {
  size_t publish = 0;
  size_t higher = 0;
  bool counts = false;
  for (const auto& [name, node] : membership.nodes()) {
    if (!node.member() || node.step == 0) continue;
    ++publish;
    if (node.step <= node.step_before.value_or(node.step)) continue;
    ++higher;
    counts = counts || &node != failing || node.node_rank == 0;
  }
  return counts && higher * 2 > publish;
}

}  // namespace rollcall
