// Ranks: the processes of one machine's ranks, plain or linked.
//
// Plain ranks die when they are told to, at once or at the end of their grace.
// Linked ranks tear their communicator down when their world ends, most of the
// time, and wait for the next world. After a notice, they stop at a boundary on
// which the trainer makes all ranks agree. They add to a counter in the store
// of their generation.
#ifndef ROLLCALL_TESTS_SIM_NODES_RANKS_H_
#define ROLLCALL_TESTS_SIM_NODES_RANKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "client/agent/core/agent_events.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

class Ranks {
 public:
  using Feed = std::function<void(AgentEvent)>;
  // `feed`: passes events to the machine's agent, which may be gone.
  Ranks(World& world, uint32_t machine, uint32_t count, bool linked, Feed feed);

  // --- Orders of the agent ---------------------------------------------------

  void Start(const StartRanks& start);
  void Abort(const AbortRanks& abort);
  void Stop(const StopRanks& stop);
  void Signal(const PassSignal& pass);
  void Tell(const TellNotice& notice);
  void Look(const LookAtRank& look);
  // The sum of the counter that a rank was told.
  struct Counted {
    uint64_t generation;
    int64_t seen;  // The highest sum that any rank had been told when this one
                   // asked.
    int64_t sum;
  };
  // nullopt: the rank no longer waits for the answer.
  std::optional<Counted> Answer(const AnswerStore& answer);

  // --- Faults ----------------------------------------------------------------

  void Fail(uint32_t local_rank, int code, int signal);
  // The rank hangs after `step`: it is stopped, or waits in a collective of its
  // own or of all ranks.
  void Hang(uint32_t local_rank, uint64_t step, Nanos until);
  // The next rank that is started hangs for a while before it attends or
  // completes a step.
  void HangStart() { start_hangs_ = true; }
  // The rank hangs in the kernel (a disk, a driver): no signal ends it before
  // `until`.
  void Stick(uint32_t local_rank, Nanos until);
  // The work of this generation is done, so each of its ranks exits 0.
  void Finish(uint64_t generation);
  // The agent is gone; its guard kills the ranks by `when`.
  void EndBy(Nanos when);
  // All ranks are gone at once.
  void Clear();

  void OnDeed(uint64_t number);

  // --- Calls of the trainer --------------------------------------------------

  // The generation in whose steps all ranks of this machine take part; 0: none.
  uint64_t running() const;
  // Whether one of the ranks hangs, which stops all others.
  bool hung() const;
  // True if a linked rank attends, or if a plain rank does not hang.
  bool has_begun(uint32_t local_rank) const;
  // Whether one of the ranks was asked to come to a boundary.
  bool noticed(uint64_t generation) const;
  // All ranks of the world have agreed to stop after this step.
  void StandAtBoundary(uint64_t generation);
  void Completed(uint64_t step);

  // The steps of the rank that has completed most; 0: none.
  uint64_t completed() const;
  // The newest generation for which a rank runs; 0: none.
  uint64_t busy_in() const;

  bool linked() const { return linked_; }
  bool any() const;
  // Whether a rank runs that does not wait for a world.
  bool any_busy() const;

 private:
  enum class Hung { kNot, kStopped, kBehind, kWithAll, kInKernel };
  struct Rank {
    // The number of this life of the rank; 0: no rank runs.
    uint64_t number = 0;
    uint64_t born = 0;  // The generation that it was started for.
    uint64_t generation = 0;
    bool attends = false;
    bool ended = false;
    bool stopping = false;
    bool waits = false;
    bool at_boundary = false;
    int counts_left = 0;  // Additions left in this generation.
    uint64_t completed = 0;
    bool whole = false;
    Hung hung = Hung::kNot;
    Nanos die_at = kNever;
    Nanos kill_at = kNever;
  };
  struct Deed {
    enum class What {
      kAttend,
      kCounts,
      kEnd,
      kSignalled,
      kDie,
      kGone,
      kTearDown,
      kAtBoundary,
      kHere,
      kLooked,
      kGoesOn
    };
    What what;
    uint32_t local_rank;
    uint64_t number;
    uint64_t generation = 0;
    int code = 0;
    int signal = 0;
  };

  // A rank that waits for the counter's sum.
  struct Counts {
    uint32_t local_rank;
    uint64_t number;
    uint64_t generation;
    int64_t seen;
  };

  void CountLater(uint32_t local_rank);
  void Count(uint32_t local_rank);
  static bool Awaits(Deed::What what, Hung hung);
  void Later(Nanos after, Deed deed);
  void End(uint32_t local_rank, int code, int signal);
  void HangNow(uint32_t local_rank, uint64_t step, Nanos until);
  void Gone(uint32_t local_rank);
  Rank* Find(const RankIncarnation& incarnation);
  // What NCCL would report of the rank.
  static v1::NcclPlace NcclOf(const Rank& rank);

  World& world_;
  const uint32_t machine_;
  const bool linked_;
  const Feed feed_;
  std::vector<Rank> ranks_;
  uint64_t numbers_ = 0;
  std::vector<Deed> deeds_;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Counts> counts_;
  uint64_t noticed_ = 0;
  bool start_hangs_ = false;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_NODES_RANKS_H_
