// FaultPlan: which faults occur in a run, and when. All is drawn from the seed.
//
// A flapper is a node that attends, is lost or leaves, and attends again, to
// the end of the run; in some runs it has a new name each time. A run with
// flappers has no other fault.
#ifndef ROLLCALL_TESTS_SIM_FAULT_PLAN_H_
#define ROLLCALL_TESTS_SIM_FAULT_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/daemons/daemons.h"
#include "tests/sim/network.h"
#include "tests/sim/nodes/node.h"
#include "tests/sim/nodes/trainer.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

struct FaultPlanSettings {
  Nanos calm_at = 0;
  // The job watches for hangs, so a rank that hangs need not go on by itself.
  bool watched = false;
  // The number of flappers. They are the last of the nodes that have a name of
  // their own.
  uint32_t flappers = 0;
  // The daemon's journal is put back to an earlier state, now and then. Only
  // the agents know what happened since, so no fault cuts them off or kills
  // them.
  bool rolls_back = false;
  // Several daemons share a store. The faults that concern several daemons are
  // likely.
  bool group = false;
};

class FaultPlan {
 public:
  FaultPlan(World& world, Network& network, InvariantChecker& checker,
            Daemons& daemon, Trainer& trainer,
            std::vector<std::unique_ptr<Node>>& nodes,
            const FaultPlanSettings& settings);

  // Schedules the first fault.
  void Start();
  void OnFault();
  void OnFlap(uint32_t node);
  void OnMends(uint32_t node, uint64_t epoch);
  // Ends all faults that last; no more occur.
  void Calm();
  // Whether the stream belongs to a ghost, which reads no answer.
  bool IsGhost(StreamId stream) const;

  uint64_t count() const { return count_; }

 private:
  enum class Kind {
    kKill,
    kPowerLoss,
    kCut,
    kCutHalf,
    kRefuseHalf,
    kFreeze,
    kStall,
    kRankFails,
    kRankHangs,
    kRankSticks,
    kSlowPrepare,
    kRefusal,
    kDaemonDies,
    kDaemonForgets,
    kLaunchAgain,
    kRollBack,
    kJournalBreaks,
    kImpostor,
    kGhost,
    kOldDaemon,
    kReset,
    kResetMax,
    kCutDaemon,
    kDrain,
    kEvict,
    kSick,
    kLeave,
    kStop,
    kCount
  };

  void Do(Kind kind);
  void Cut(uint32_t node);
  void Refuse(uint32_t node);
  void CutFromDaemon(uint32_t node);
  void RaiseGhost();
  void SpeakAsBefore(const Node& node);
  void LaunchAgain();
  void RestartLater(uint32_t node);
  uint32_t Any();

  World& world_;
  Network& network_;
  InvariantChecker& checker_;
  Daemons& daemon_;
  Trainer& trainer_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  const FaultPlanSettings settings_;
  bool renames_ = false;
  // How long a flapper attends at least. In some runs this is long enough to be
  // in a world each time.
  Nanos flaps_after_ = 20 * kMilli;
  uint64_t names_ = 0;
  std::vector<Kind> kinds_;
  Nanos mean_;
  std::vector<uint64_t> cut_epoch_;
  std::vector<StreamId> ghosts_;
  uint64_t count_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_FAULT_PLAN_H_
