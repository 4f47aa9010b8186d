#include "tests/sim/nodes/trainer.h"

#include <algorithm>

#include "tests/sim/nodes/node.h"

namespace rollcall::sim {

void Trainer::Joins(uint32_t machine, const StartRanks& start, size_t nodes) {
  const uint64_t number = start.world.generation();
  Generation& generation = generations_[number];
  generation.nodes = nodes;
  generation.machines.insert(machine);
  if (generation.machines.size() < generation.nodes) return;
  if (start.world_commit.has_state_source()) {
    generation.done = start.world_commit.state_source().step();
  } else if (saves_) {
    generation.done = saved_[number / kGenerationsARun];
  }
  world_.Schedule(world_.now() + period_, Wake::Kind::kStep, 0, number);
}

void Trainer::OnStep(uint64_t number) {
  Generation& generation = generations_.at(number);
  if (generation.done >= steps_) {
    // The last step is done. The ranks finish also if some have ended or are in
    // another world.
    for (const uint32_t machine : generation.machines) {
      nodes_[machine]->ranks().Finish(number);
    }
    return;
  }
  bool stalls = false;
  for (const uint32_t machine : generation.machines) {
    // If a rank is gone, the others wait in a collective that never ends.
    if (nodes_[machine]->ranks().running() != number) return;
    stalls = stalls || StallsOn(machine, generation);
  }
  if (!stalls) {
    Complete(number, generation);
    if (generation.done >= steps_) {
      world_.Trace("generation ", number, " has done its last step");
      for (const uint32_t machine : generation.machines) {
        nodes_[machine]->ranks().Finish(number);
      }
      return;
    }
    // If one rank was asked to stop, all ranks learn of it with the step.
    const bool noticed = std::any_of(
        generation.machines.begin(), generation.machines.end(),
        [&](uint32_t m) { return nodes_[m]->ranks().noticed(number); });
    if (noticed) {
      world_.Trace("generation ", number, " stands at a boundary");
      for (const uint32_t machine : generation.machines) {
        nodes_[machine]->ranks().StandAtBoundary(number);
      }
      return;
    }
  }
  world_.Schedule(world_.now() + period_, Wake::Kind::kStep, 0, number);
}

bool Trainer::StallsOn(uint32_t machine, const Generation& generation) const {
  return nodes_[machine]->frozen() || nodes_[machine]->ranks().hung() ||
         (unreachable_.contains(machine) && generation.nodes > 1);
}

void Trainer::Complete(uint64_t number, Generation& generation) {
  ++generation.done;
  saved_[number / kGenerationsARun] = generation.done;
  generation.first_step = std::min(generation.first_step, world_.now());
  checker_.Stepped(number);
  for (const uint32_t machine : generation.machines) {
    nodes_[machine]->ranks().Completed(generation.done);
  }
  MeasureOverlap(number, generation);
}

void Trainer::MeasureOverlap(uint64_t number, const Generation& generation) {
  for (Node* node : nodes_) {
    const uint64_t older = node->ranks().busy_in();
    if (older == 0 || older >= number ||
        older / kGenerationsARun != number / kGenerationsARun) {
      continue;
    }
    const std::set<uint32_t>& before = generations_[older].machines;
    const bool shares = std::any_of(
        before.begin(), before.end(),
        [&](uint32_t m) { return generation.machines.contains(m); });
    if (shares) continue;
    overlap_ =
        std::max(overlap_, world_.now() - generation.first_step + Nanos{1});
  }
}

}  // namespace rollcall::sim
