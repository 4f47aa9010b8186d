// StateSource: chooses the node from which the linked ranks of the next world
// take the training state.
//
// Each node makes at most one claim: the highest step for which one of its
// ranks holds the whole state. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_STATE_SOURCE_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_STATE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/formation/generations.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// With at least this many claims, a claim that does not fit the others can be
// found.
inline constexpr size_t kStateClaimsToCompare = 3;

struct StateClaim {
  enum class From {
    kNewcomer,  // Its node was in no world of this run.
    // Its node was only in an earlier world, or the daemon cannot know.
    kEarlier,
    kEnded,  // Its node was in the world that ran last.
  };
  uint64_t step = 0;
  From from = From::kNewcomer;
};

struct StateChoice {
  // Index into the claims; nullopt: there is no source.
  std::optional<size_t> source;
  // Claims that are not believed. Their nodes take the state of the source.
  std::vector<size_t> disbelieved;
  // The median that claims were compared with, if there were enough claims.
  std::optional<uint64_t> median;
};

// `claims` are in the order of seats. The highest step wins; of equal steps,
// the first claim. Either all ranks of a world complete a step or none does. So
// no correct claim is more than one step above the median of at least
// kStateClaimsToCompare members of the world that ended. Claims from an earlier
// world do not count for that median. A newcomer cannot have a newer state than
// a node that was in a world.
StateChoice ChooseStateSource(const std::vector<StateClaim>& claims);

// Chooses this world's state source among the ranks that kept running
// (Node::state_held). All members must be in `membership`. Call it before the
// commit, because for `generations` the last world that ran must still be the
// one that ended.
struct SourceChoice {
  // A claim that is not believed, with a text for the log.
  struct Doubt {
    std::string node;
    std::string text;
  };
  std::optional<v1::StateSource> source;
  std::vector<Doubt> doubts;  // At most 8.
};
SourceChoice ChooseSource(const v1::World& world, const Membership& membership,
                          const Generations& generations);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_STATE_SOURCE_H_
