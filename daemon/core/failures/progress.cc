#include "daemon/core/failures/progress.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace rollcall {

void Progress::UseLast(LastStep last) {
  last_ = std::move(last);
  saved_before_ = told_saved_ = last_.saved;
}

std::optional<Progress::Taken> Progress::TakeStep(
    Node& node, uint64_t step, const v1::World& world,
    const Membership& membership) {
  if (!node.ranks.step_before.has_value())
    node.ranks.step_before = node.ranks.step;
  const bool is_first = node.node_rank == 0;
  // Node rank 0 may have finished, left and been removed.
  const Node* const first =
      is_first ? nullptr : membership.Find(world.members(0).node());
  if (first != nullptr && first->ranks.step != 0) return std::nullopt;
  Taken taken;
  const bool begins = generation_ != world.generation();
  if (begins) {
    taken.below = Below(world, step);
    if (taken.below.has_value()) resumed_ = *taken.below;
    generation_ = world.generation();
    step_before_ = std::max(step_before_, step_);
    saved_before_ = saved();
    saved_ = 0;
    by_first_ = false;
  }
  const bool takes_over = is_first && !by_first_;
  if (takes_over) {
    by_first_ = true;
    saved_ = 0;  // What others have said.
  }
  const uint64_t former = step_;
  step_ = begins || takes_over ? step : std::max(step_, step);
  // At most twice in a world, which bounds the events.
  if (step_ < former) tell_step_ = kToldMin;
  // No step is twice as high as one above half of this.
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  if (step_ >= tell_step_ && tell_step_ != kNever) {
    taken.reached = true;
    tell_step_ = step_ > kNever / 2 ? kNever : 2 * step_;
  }
  return taken;
}

// `step`: the first one of this world.
std::optional<v1::Resumed> Progress::Below(const v1::World& world,
                                           uint64_t step) const {
  // The daemon before has seen this world's first step.
  if (last_.world_run == world.run() &&
      last_.world_generation == world.generation()) {
    return std::nullopt;
  }
  const uint64_t before = std::max(step_before_, step_);
  const uint64_t was = before == 0 ? last_.step : before;
  if (saved() > 0 ? step >= saved() : step >= was / 2) return std::nullopt;
  v1::Resumed below;
  below.set_generation(world.generation());
  below.set_step(step);
  below.set_was(was);
  below.set_saved_step(saved());
  if (before == 0 && last_.run != world.run()) below.set_former_run(last_.run);
  return below;
}

bool Progress::TakeSaved(uint64_t saved, absl::Time now) {
  if (saved == 0 || saved > step_) return false;
  saved_ = std::max(saved_, saved);
  if (saved_ == told_saved_ || now < told_saved_at_ + kSavedApart) return false;
  told_saved_ = saved_;
  told_saved_at_ = now;
  return true;
}

bool Progress::TakePace(const v1::Pace& pace) {
  // A pace has no map, so equal ones have equal bytes.
  const bool same = pace_.has_value() &&
                    pace_->SerializeAsString() == pace.SerializeAsString();
  pace_ = pace;
  return !same;
}

bool HasProgressed(const Membership& membership, const Node* failing) {
  size_t publish = 0;
  size_t higher = 0;
  bool counts = false;
  for (const auto& [name, node] : membership.nodes()) {
    if (!node.member() || node.ranks.step == 0) continue;
    ++publish;
    if (node.ranks.step <= node.ranks.step_before.value_or(node.ranks.step))
      continue;
    ++higher;
    counts = counts || &node != failing || node.node_rank == 0;
  }
  return counts && higher * 2 > publish;
}

}  // namespace rollcall
