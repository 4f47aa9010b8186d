// Trainer: what the ranks of a generation do together.
//
// As with a collective, a step is done by all ranks of a world or by none: all
// run, none is frozen, and all machines reach each other. Each world counts its
// own steps, so that two worlds that run at once are noticed. A world begins
// with the step of its state source. Without one it begins with the checkpoint
// of its run, which every step overwrites; ranks that save nothing begin with
// 0. After the last step all ranks exit 0.
#ifndef ROLLCALL_TESTS_SIM_NODES_TRAINER_H_
#define ROLLCALL_TESTS_SIM_NODES_TRAINER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "client/agent/core/agent_events.h"
#include "tests/sim/checker/invariant_checker.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Node;

class Trainer {
 public:
  Trainer(World& world, InvariantChecker& checker, uint64_t steps, Nanos period,
          bool saves)
      : world_(world),
        checker_(checker),
        steps_(steps),
        period_(period),
        saves_(saves) {}

  // All machines, in their order. They must outlive the trainer.
  void SetNodes(std::vector<Node*> nodes) { nodes_ = std::move(nodes); }

  // The ranks of one machine have started. `nodes`: the number of nodes whose
  // ranks run.
  void Joins(uint32_t machine, const StartRanks& start, size_t nodes);
  void OnStep(uint64_t generation);

  // The other machines cannot reach this machine.
  void CutPeers(uint32_t machine) { unreachable_.insert(machine); }
  void MendPeers(uint32_t machine) { unreachable_.erase(machine); }

  // The longest time for which ranks of an older world were alive beside a
  // newer world of the same run that has none of its machines and has completed
  // a step; 0: there was no such time. It is measured at the steps of the newer
  // world.
  Nanos overlap() const { return overlap_; }

 private:
  struct Generation {
    size_t nodes = 0;
    std::set<uint32_t> machines;
    uint64_t done = 0;
    Nanos first_step = kNever;
  };

  bool StallsOn(uint32_t machine, const Generation& generation) const;
  void Complete(uint64_t number, Generation& generation);
  void MeasureOverlap(uint64_t number, const Generation& generation);

  World& world_;
  InvariantChecker& checker_;
  const uint64_t steps_;
  const Nanos period_;
  const bool saves_;
  std::vector<Node*> nodes_;
  std::map<uint64_t, Generation> generations_;
  std::set<uint32_t> unreachable_;
  std::map<uint64_t, uint64_t> saved_;  // By run: the step of its checkpoint.
  Nanos overlap_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_NODES_TRAINER_H_
