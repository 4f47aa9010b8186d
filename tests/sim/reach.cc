#include "tests/sim/reach.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/check.h"
#include "daemon/core/invariants.h"

namespace rollcall::sim {
namespace {

constexpr uint64_t kRunsOfAFloor = 20000;
constexpr uint64_t kGroupRunsOfAFloor = 1000;

// How often at least that many runs test each promise, in the order of
// kInvariants: about half of what was counted when the number was written.
constexpr uint64_t kFloors[] = {
    1000,    // one world
    79000,   // same bytes
    31000,   // dense
    78000,   // sticky
    3300,    // no older
    78000,   // fresh ids
    22000,   // survives
    110000,  // journal first
    11000,   // journal restores
    110000,  // refused is nothing
    10000,   // retry is nothing
    820,     // replaced is out
    100000,  // bounded
    62000,   // one generation a node
    18000,   // one generation steps
    79000,   // prepared means gone
    2200,    // started once
    39000,   // exit is last
    18000,   // lease holds
    140000,  // nothing left due
    680000,  // admitted
    37000,   // reasons
    2200,    // majority
    29000,   // state goes on
    3700,    // leaves for good
    120,     // evicted is out
    5000,    // budget
    390,     // a hang is told
    510,     // trains on
    20000,   // progress
    770,     // adopted by most
    4500,    // told it ended
    2400,    // excluded is out
    52000,   // exits as told
    0,       // former is silent
    0,       // written once
    0,       // leader knows
    0,       // ended stays ended
    250000,  // stored once
};
// The same for kGroupRunsOfAFloor runs of several daemons.
constexpr uint64_t kGroupFloors[] = {
    49,     // one world
    3100,   // same bytes
    1100,   // dense
    2800,   // sticky
    130,    // no older
    2800,   // fresh ids
    1200,   // survives
    4300,   // journal first
    650,    // journal restores
    3100,   // refused is nothing
    380,    // retry is nothing
    26,     // replaced is out
    14000,  // bounded
    2100,   // one generation a node
    600,    // one generation steps
    2800,   // prepared means gone
    88,     // started once
    1900,   // exit is last
    710,    // lease holds
    6700,   // nothing left due
    0,      // admitted
    1400,   // reasons
    120,    // majority
    1300,   // state goes on
    150,    // leaves for good
    0,      // evicted is out
    140,    // budget
    14,     // a hang is told
    0,      // trains on
    1000,   // progress
    0,      // adopted by most
    73,     // told it ended
    98,     // excluded is out
    2400,   // exits as told
    540,    // former is silent
    800,    // written once
    7900,   // leader knows
    170,    // ended stays ended
    12000,  // stored once
};

}  // namespace

Reach::Reach(bool group)
    : group_(group), reached_(kInvariants.size()), times_(kInvariants.size()) {
  CHECK_EQ(kInvariants.size(), std::size(kFloors));
  CHECK_EQ(kInvariants.size(), std::size(kGroupFloors));
}

void Reach::Add(const std::vector<uint64_t>& tested) {
  CHECK_EQ(tested.size(), times_.size());
  ++runs_;
  for (size_t i = 0; i < tested.size(); ++i) {
    reached_[i] += tested[i] > 0;
    times_[i] += tested[i];
  }
}

std::string Reach::Table() const {
  std::string text =
      absl::StrFormat("%9s %9s %12s  name\n", "promise", "runs", "times");
  for (size_t i = 0; i < times_.size(); ++i) {
    absl::StrAppendFormat(&text, "%9d %9d %12d  %s\n", i + 1, reached_[i],
                          times_[i], kInvariants[i].name);
  }
  return text;
}

std::string Reach::Json() const {
  std::string text = "[";
  for (size_t i = 0; i < times_.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "{\"promise\": ", i + 1,
                    ", \"name\": \"", kInvariants[i].name,
                    "\", \"runs\": ", reached_[i], ", \"times\": ", times_[i],
                    "}");
  }
  return text + "]";
}

std::string Reach::BelowFloor() const {
  std::string text;
  const uint64_t runs = group_ ? kGroupRunsOfAFloor : kRunsOfAFloor;
  const auto& floors = group_ ? kGroupFloors : kFloors;
  if (runs_ < runs) return text;
  for (size_t i = 0; i < times_.size(); ++i) {
    const uint64_t least = floors[i] * (runs_ / runs);
    if (times_[i] >= least) continue;
    absl::StrAppend(&text, "invariant ", i + 1, " (", kInvariants[i].name,
                    ") was put to the test ", times_[i], " times in ", runs_,
                    " runs, expected at least ", least, "\n");
  }
  return text;
}

}  // namespace rollcall::sim
