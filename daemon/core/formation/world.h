// World values: how they are built from the seated nodes, encoded and decoded.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_WORLD_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_WORLD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/core/network_plan/network_plan.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct WorldNode {
  const v1::Hello* hello;
  uint32_t seat;
};

// Builds the endpoint table. Node ranks are in the order given; ranks are
// contiguous and dense. `header` has the job, run, generation and restart
// counts.
v1::World BuildWorld(const v1::World& header,
                     const std::vector<WorldNode>& nodes,
                     const NetworkPlan& plan);

// How many of the member's ranks are started, counted from local rank 0. With
// --once, only rank 0 of the world is started.
uint32_t RanksStarted(const v1::Member& member);

// The number of ranks of each member, by node rank.
std::vector<uint32_t> RanksOf(const v1::World& world);

// Deterministic: equal worlds have equal bytes.
std::string EncodeWorld(const v1::World& world);

// INVALID_ARGUMENT: not a world; admission refuses it; its ranks are not dense;
// or a node or a seat occurs twice.
absl::StatusOr<v1::World> DecodeWorld(const std::string& bytes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_WORLD_H_
