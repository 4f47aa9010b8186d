// StateSource: whose state the linked ranks of the next world go on with.
//
// Each node brings at most one claim: the highest step of which one of its
// ranks holds the whole state. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_STATE_SOURCE_H_
#define ROLLCALL_DAEMON_CORE_STATE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rollcall {

// From this many claims on, one that does not fit the others is told apart.
inline constexpr size_t kStateClaimsToCompare = 3;

struct StateClaim {
  enum class From {
    kNewcomer,  // Its node was in no world of this run.
    kEarlier,   // In an earlier world than the last, or the daemon cannot know.
    kEnded,     // In the world that ran last.
  };
  uint64_t step = 0;
  From from = From::kNewcomer;
};

struct StateChoice {
  // Into the claims; nullopt: there is none.
  std::optional<size_t> source;
  // Claims that are not believed; their nodes take the state of the others.
  std::vector<size_t> disbelieved;
  // What they were compared with, where there were enough.
  std::optional<uint64_t> median;
};

// `claims` in the order of seats: the highest step counts, then the first. All
// ranks of a world do a step or none does, so no honest claim stands more than
// one step above the median of kStateClaimsToCompare or more members of the
// world that ended. The state of an earlier world says nothing about that
// median. A newcomer cannot have a newer state than a node that was in a world.
StateChoice ChooseStateSource(const std::vector<StateClaim>& claims);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_STATE_SOURCE_H_
