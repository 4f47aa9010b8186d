#include "tests/sim/trainer.h"

#include <algorithm>

#include "tests/sim/node.h"

namespace rollcall::sim {

void Trainer::Joins(uint32_t machine, uint64_t number, size_t nodes) {
  Generation& generation = generations_[number];
  generation.nodes = nodes;
  generation.machines.insert(machine);
  if (generation.machines.size() < generation.nodes) return;
  if (!saves_) done_ = 0;
  world_.Schedule(world_.now() + period_, Wake::Kind::kStep, 0, number);
}

void Trainer::OnStep(uint64_t number) {
  const Generation& generation = generations_.at(number);
  if (done_ >= steps_) {
    // Nothing is left to be done, whoever is gone already.
    for (const uint32_t machine : generation.machines) {
      nodes_[machine]->ranks().Finish();
    }
    return;
  }
  bool stalls = false;
  for (const uint32_t machine : generation.machines) {
    // A rank that is gone leaves the others in a collective that never ends.
    if (nodes_[machine]->ranks().running() != number) return;
    stalls = stalls || nodes_[machine]->frozen() ||
             nodes_[machine]->ranks().hung() ||
             (unreachable_.contains(machine) && generation.nodes > 1);
  }
  if (!stalls) {
    if (done_ < steps_) {
      ++done_;
      chronicle_.Stepped(number);
      for (const uint32_t machine : generation.machines) {
        nodes_[machine]->ranks().Completed(done_);
      }
    }
    if (done_ >= steps_) {
      world_.Trace("generation ", number, " has done its last step");
      for (const uint32_t machine : generation.machines) {
        nodes_[machine]->ranks().Finish();
      }
      return;
    }
    // What one rank was asked for travels with the step, to all of them.
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

}  // namespace rollcall::sim
