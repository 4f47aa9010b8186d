// Generations: which generation numbers were used, and which of the run's
// worlds this daemon has seen.
//
// A generation is the fencing token of its world, so a number is never used
// twice: not after a restart of the daemon, and not by a daemon that adopts the
// run. A daemon never forms a generation at or below one that an agent has
// seen.
//
// A pure value; any thread.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_GENERATIONS_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_GENERATIONS_H_

#include <algorithm>
#include <cstdint>

namespace rollcall {

class Generations {
 public:
  // For a new run.
  Generations() = default;
  // For a run that continues from its journal. `highest`: the highest
  // generation that may have been proposed.
  explicit Generations(uint64_t highest)
      : current_(highest), knows_all_worlds_(highest == 0) {}

  // The generation that was proposed last, or the one that was taken up since;
  // 0: none.
  uint64_t current() const { return current_; }
  // The number of the next proposal.
  uint64_t Next() { return current_ = std::max(current_, seen_) + 1; }
  // This daemon has committed the current generation.
  void Committed() { ran_ = current_; }
  // The run continues another run. A daemon whose memory was lost may have
  // proposed generations up to `highest` in it.
  void Adopt(uint64_t highest) {
    current_ = 0;  // The former number belongs to this daemon's own run.
    seen_ = std::max(seen_, highest);
    knows_all_worlds_ = false;
  }
  // A former daemon has committed this world, and it still runs.
  void TakeUp(uint64_t running) {
    seen_ = std::max(seen_, current_);
    current_ = running;
    ran_ = running;
  }
  // An agent reports that it has seen this generation. An implausibly high
  // number is ignored.
  void Seen(uint64_t generation) {
    constexpr uint64_t kAheadMax = uint64_t{1} << 32;
    if (generation > current_ && generation - current_ < kAheadMax) {
      seen_ = std::max(seen_, generation);
    }
  }

  // The generation of the last world that ran; 0: this daemon knows of none.
  uint64_t ran() const { return ran_; }
  // Whether this daemon has seen every world of the run. If not, a node may
  // have been in a world that the journal no longer has.
  bool knows_all_worlds() const { return knows_all_worlds_; }
  // Whether a world of this run was committed, or may have been.
  bool may_have_run() const { return ran_ != 0 || !knows_all_worlds_; }

 private:
  uint64_t current_ = 0;
  uint64_t seen_ = 0;
  uint64_t ran_ = 0;
  bool knows_all_worlds_ = true;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_GENERATIONS_H_
