// Mishaps: what goes wrong in a run, and when, drawn from its seed.
//
// In a run with flappers nothing else goes wrong, and they flap to its end:
// each attends, is lost or leaves, and attends again, some by a new name each
// time.
#ifndef ROLLCALL_TESTS_SIM_MISHAPS_H_
#define ROLLCALL_TESTS_SIM_MISHAPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/daemon.h"
#include "tests/sim/network.h"
#include "tests/sim/node.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Mishaps {
 public:
  Mishaps(World& world, Network& network, Daemon& daemon, Trainer& trainer,
          std::vector<std::unique_ptr<Node>>& nodes, Nanos calm_at,
          bool watched, uint32_t flappers);

  // The first is asked for.
  void Start();
  void OnMishap();
  void OnFlap(uint32_t node);
  void OnMends(uint32_t node, uint64_t epoch);
  // Everything that is broken is mended, and nothing breaks any more.
  void Calm();
  // What a ghost's stream is told; it answers nothing.
  bool IsGhost(StreamId stream) const;

  uint64_t count() const { return count_; }

 private:
  enum class Kind {
    kKill,
    kPowerLoss,
    kCut,
    kCutHalf,
    kFreeze,
    kStall,
    kRankFails,
    kRankHangs,
    kSlowPrepare,
    kRefusal,
    kDaemonDies,
    kDaemonForgets,
    kJournalBreaks,
    kImpostor,
    kGhost,
    kReset,
    kResetMost,
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
  void CutFromDaemon(uint32_t node);
  void RaiseGhost();
  void RestartLater(uint32_t node);
  uint32_t Any();

  World& world_;
  Network& network_;
  Daemon& daemon_;
  Trainer& trainer_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  const Nanos calm_at_;
  // Who hangs is found, and need not go on by itself.
  const bool watched_;
  // The last of those nodes that bear a name of their own.
  const uint32_t flappers_;
  bool renames_ = false;
  uint64_t names_ = 0;
  std::vector<Kind> kinds_;
  Nanos mean_;
  std::vector<uint64_t> cut_epoch_;
  std::vector<StreamId> ghosts_;
  uint64_t count_ = 0;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_MISHAPS_H_
