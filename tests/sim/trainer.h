// Trainer: what the ranks of a generation do together.
//
// A step is done by all ranks of a world or by none, as a collective is: all
// run, none is frozen, and all machines reach each other. What was done stays
// done in the next generation, unless the ranks save nothing and begin again in
// each. After the last step all ranks exit 0.
#ifndef ROLLCALL_TESTS_SIM_TRAINER_H_
#define ROLLCALL_TESTS_SIM_TRAINER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "rollcall/v1/membership.pb.h"
#include "tests/sim/chronicle.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Node;

class Trainer {
 public:
  Trainer(World& world, Chronicle& chronicle, uint64_t steps, Nanos period,
          bool saves)
      : world_(world),
        chronicle_(chronicle),
        steps_(steps),
        period_(period),
        saves_(saves) {}

  // All machines, in their order; they outlive the trainer.
  void SetNodes(std::vector<Node*> nodes) { nodes_ = std::move(nodes); }

  // The ranks of one machine have started; they run on so many.
  void Joins(uint32_t machine, uint64_t generation, size_t nodes);
  void OnStep(uint64_t generation);

  // Machines that nobody else reaches.
  void CutPeers(uint32_t machine) { unreachable_.insert(machine); }
  void MendPeers(uint32_t machine) { unreachable_.erase(machine); }

  // What was done is of no use to another run.
  void BeginAnew() { done_ = 0; }
  uint64_t done() const { return done_; }

 private:
  struct Generation {
    size_t nodes = 0;
    std::set<uint32_t> machines;
  };

  World& world_;
  Chronicle& chronicle_;
  const uint64_t steps_;
  const Nanos period_;
  const bool saves_;
  std::vector<Node*> nodes_;
  std::map<uint64_t, Generation> generations_;
  std::set<uint32_t> unreachable_;
  uint64_t done_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_TRAINER_H_
