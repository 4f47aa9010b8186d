// Ranks: the processes of one machine's ranks, plain or linked.
//
// Plain ones die when they are told to, on time or at the end of their grace.
// Linked ones tear their communicator down when their world ends, most of the
// time, and wait for the next one; asked by a notice, they come to a boundary
// that the trainer has all ranks agree on. They count in the store of their
// generation.
#ifndef ROLLCALL_TESTS_SIM_RANKS_H_
#define ROLLCALL_TESTS_SIM_RANKS_H_

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
  // `feed`: to the machine's agent, which may be gone.
  Ranks(World& world, uint32_t machine, uint32_t count, bool linked, Feed feed);

  // --- What the agent orders -------------------------------------------------

  void Start(const StartRanks& start);
  void Abort(const AbortRanks& abort);
  void Stop(const StopRanks& stop);
  void Signal(const PassSignal& pass);
  void Tell(const TellNotice& notice);
  void Look(const LookAtRank& look);
  // What a rank was told of the counter.
  struct Counted {
    uint64_t generation;
    int64_t seen;  // By any rank when it asked.
    int64_t sum;
  };
  // nullopt: it waits no longer.
  std::optional<Counted> Answer(const AnswerStore& answer);

  // --- What befalls them -----------------------------------------------------

  void Fail(uint32_t local_rank, int code, int signal);
  // Stands still after `step`: stopped, or in a collective of its own or of
  // all.
  void Hang(uint32_t local_rank, uint64_t step, Nanos until);
  // The next one that is started stands still for a while before it attends or
  // does a step.
  void HangStart() { start_hangs_ = true; }
  // Stands still in the kernel (a disk, a driver): no signal ends it before
  // then.
  void Stick(uint32_t local_rank, Nanos until);
  // The work of this generation is done: each of its ranks exits 0.
  void Finish(uint64_t generation);
  // The agent is gone; its guard takes them along by then.
  void EndBy(Nanos when);
  // Nothing is left of them.
  void Clear();

  void OnDeed(uint64_t number);

  // --- By the trainer --------------------------------------------------------

  // The generation in whose steps all take part; 0: none.
  uint64_t running() const;
  // Whether one of them stands still, and all others with it.
  bool hung() const;
  // It attends, where ranks do, or its steps are its own to publish.
  bool has_begun(uint32_t local_rank) const;
  // Whether one of them was asked to come to a boundary.
  bool noticed(uint64_t generation) const;
  // All ranks of the world have agreed to stop after this step.
  void StandAtBoundary(uint64_t generation);
  void Completed(uint64_t step);

  // By the rank that has most; 0: none has completed one.
  uint64_t completed() const;
  // The newest generation of those that run for one; 0: none does.
  uint64_t busy_in() const;

  bool linked() const { return linked_; }
  bool any() const;
  // Besides those that wait for a world.
  bool any_busy() const;

 private:
  enum class Hung { kNot, kStopped, kBehind, kWithAll, kInKernel };
  struct Rank {
    // This life; 0: there is none.
    uint64_t number = 0;
    uint64_t born = 0;  // The generation that it was started for.
    uint64_t generation = 0;
    bool attends = false;
    bool ended = false;
    bool stopping = false;
    bool waits = false;
    bool at_boundary = false;
    int counts_left = 0;  // In this generation.
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

  // A rank that waits for the sum.
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
  // As if NCCL were asked about it.
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

#endif  // ROLLCALL_TESTS_SIM_RANKS_H_
