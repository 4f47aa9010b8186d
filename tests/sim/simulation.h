// Simulation: one whole run, made from one seed.
//
// The run begins with a time of faults. Then comes calm: no fault occurs any
// more, and the job has to come to its end. Everything is drawn from the seed,
// also the sizes, the timeouts and the kinds of fault, so that some runs have
// one kind often and others many kinds at once.
#ifndef ROLLCALL_TESTS_SIM_SIMULATION_H_
#define ROLLCALL_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/journal/journal.h"
#include "tests/sim/checker/invariant_checker.h"
#include "tests/sim/daemons/daemon.h"
#include "tests/sim/daemons/daemons.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/network.h"
#include "tests/sim/nodes/node.h"
#include "tests/sim/nodes/trainer.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

struct SimulationOptions {
  uint64_t seed = 0;
  // 0: the number is drawn from the seed.
  uint32_t nodes = 0;
  // Two or three daemons share a store.
  bool group = false;
  bool trace = false;
  // The run goes on from this journal, with the nodes and settings of its
  // world.
  std::optional<JournaledRun> journal;
};

struct Outcome {
  bool ok = false;
  std::string verdict;  // Set if not ok.
  std::string end;      // How the job ended: a ReasonCode's name.
  uint64_t events = 0;
  uint64_t generations = 0;
  uint64_t faults = 0;
  Nanos overlap = 0;  // Trainer::overlap.
  // How often each promise was tested, in the order of kInvariants.
  std::vector<uint64_t> tested;
};

// All values that are drawn before the first event.
struct Plan {
  std::string job;
  // The journal's world, if there is one.
  v1::World world;
  uint32_t nodes;
  uint32_t machines;  // More than nodes if some have another's name.
  // The number of flappers among the nodes: they only join and get lost. The
  // other nodes alone are enough for a world.
  uint32_t flappers = 0;
  bool rolls_back = false;
  bool once = false;
  uint32_t daemons = 1;
  DaemonSettings daemon;
  absl::Duration join_timeout;
  // 0: all ranks are plain; 1: all are linked; 2: both kinds occur.
  int linked;
  uint64_t steps;
  Nanos period;
  Nanos calm_at;
  Nanos overdue_at;
};

class Simulation : private Ends {
 public:
  explicit Simulation(const SimulationOptions& options);
  Outcome Run();

 private:
  static Plan Draw(Chance& chance, const SimulationOptions& options);
  static void DrawFlappers(Chance& chance, Plan& plan);
  static Clock DrawClock(Chance& chance);
  std::unique_ptr<Daemons> MakeDaemons();
  NodeSettings DrawNode(uint32_t number);

  bool ToDaemon(StreamId stream, uint32_t node, Parcel& parcel) override;
  bool ToNode(StreamId stream, uint32_t node, Parcel& parcel) override;

  void Dispatch(const Wake& wake);
  void BeCalm();
  void JudgeProgress();
  void JudgeEnd();
  void NoteWhoAttends();
  void JudgeExits();
  uint32_t NodesThatMayServe() const;
  bool AllOver() const;
  bool NeverMade() const;

  World world_;
  const Plan plan_;
  InvariantChecker checker_;
  Network network_;
  const std::unique_ptr<Daemons> daemons_;
  Daemons& daemon_;
  Trainer trainer_;
  std::vector<std::unique_ptr<Node>> nodes_;
  FaultPlan faults_;
  bool calm_ = false;
  bool judged_ = false;
  // By machine: the life of the agent that attended when the job ended in calm.
  std::map<uint32_t, uint64_t> attended_;
  // Since when agents with enough different names have been alive without a
  // break.
  Nanos enough_since_ = kNever;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_SIMULATION_H_
