// World: virtual time, chance and the order of everything that happens.
//
// One seed makes one whole run, the same on every machine: no wall clock, no
// thread, no I/O, no std:: distribution, no iteration over unordered
// containers.
//
// Invariants:
//   1. Time never goes back. What is due at one moment happens in the order in
//      which it was asked for.
//   2. A machine's own clock never goes back either, whatever its drift.
#ifndef ROLLCALL_TESTS_SIM_WORLD_H_
#define ROLLCALL_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace rollcall::sim {

// Nanoseconds of simulated time since its beginning.
using Nanos = int64_t;
inline constexpr Nanos kMicro = 1000;
inline constexpr Nanos kMilli = 1000 * kMicro;
inline constexpr Nanos kSecond = 1000 * kMilli;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

inline Nanos ToNanos(absl::Duration duration) {
  return absl::ToInt64Nanoseconds(duration);
}

// xoshiro256**, seeded by splitmix64.
class Chance {
 public:
  explicit Chance(uint64_t seed);

  uint64_t Next();
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [low, high].
  Nanos Between(Nanos low, Nanos high);
  // True once in `many`; 0: never.
  bool OneIn(uint64_t many) { return many > 0 && Below(many) == 0; }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Mostly small values, few large: uniform in the logarithm. 0 < low <= high.
  Nanos Skewed(Nanos low, Nanos high);

 private:
  uint64_t state_[4];
};

// The monotonic clock of one machine.
class Clock {
 public:
  // `drift_ppm`: how many microseconds the clock gains in a simulated second.
  Clock(Nanos offset, int64_t drift_ppm)
      : offset_(offset), drift_ppm_(drift_ppm) {}

  absl::Time At(Nanos world) const;
  // The first simulated time at which At returns `local` or later.
  Nanos WorldAt(absl::Time local) const;

 private:
  Nanos Local(Nanos world) const;

  Nanos offset_;
  int64_t drift_ppm_;
};

// Something that is due. What `who` and `tag` mean depends on the kind. On
// waking, the code that asked for it checks whether it is still wanted.
struct Wake {
  enum class Kind : uint8_t {
    kDeliver,       // who: way, tag: stream
    kConnectFails,  // tag: stream
    kNoticed,       // who: way whose sender gives up, tag: stream
    kNodeTick,      // who: node, tag: life
    kNodeThaws,     // who: node
    kPrepared,      // who: node, tag: preparation
    kRankActs,      // who: node, tag: deed
    kChecked,       // who: node, tag: request
    kProbed,        // who: node, tag: probe
    kSetUp,         // who: node, tag: life
    kNodeStarts,    // who: node
    kDaemonWakes,   // tag: wish
    kCommitted,     // tag: life
    kStreamGone,    // who: daemon, tag: session
    kDaemonStarts,  // who: daemon
    kJournalMends,
    kTakeBack,      // tag: life
    kTask,          // who: daemon, tag: wish
    kProcessThaws,  // who: daemon
    kStoreActs,     // tag: flight
    kStep,          // tag: generation
    kMends,         // who: node, tag: epoch of the cut
    kFault,         // the next fault
    kFlap,          // who: node
    kCalm,          // no fault from here on
    kOverdue,       // calm has lasted long enough for everything
  };

  Nanos at;
  uint64_t sequence;
  uint64_t tag;
  uint32_t who;
  Kind kind;
};

class World {
 public:
  World(uint64_t seed, bool trace) : chance(seed), trace_(trace) {}

  Nanos now() const { return now_; }
  uint64_t events() const { return events_; }

  void Schedule(Nanos at, Wake::Kind kind, uint32_t who = 0, uint64_t tag = 0);
  // Takes the next wake-up that is due, and advances the time to it. Returns
  // false if there is none.
  bool Next(Wake& wake);

  bool tracing() const { return trace_; }
  // Prints one line. Costs nothing while tracing is off.
  template <typename... Parts>
  void Trace(const Parts&... parts) const {
    if (trace_) Print(absl::StrCat(parts...));
  }

  Chance chance;

  // Of the counter in each generation's store: the highest sum that a rank has
  // seen, and how many additions of 1 ranks have asked for.
  struct Counter {
    int64_t seen = 0;
    int64_t asked = 0;
  };
  std::map<uint64_t, Counter> counters;

  // Answers the probes at one address.
  struct Beacon {
    std::string ask;
    std::string answer;
    std::function<bool()> listens;
  };
  std::map<std::string, Beacon> beacons;

 private:
  void Print(std::string_view line) const;

  Nanos now_ = 0;
  uint64_t sequence_ = 0;
  uint64_t events_ = 0;
  std::vector<Wake> queue_;  // A heap, the earliest first.
  const bool trace_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_WORLD_H_
