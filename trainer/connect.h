// Connect: a rank's collective in the world that it is in.
//
// It finds the peers by the agent's Exchange, and ties the collective to the
// world's end: what waits in it then is woken. It trains nothing.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CONNECT_H_
#define ROLLCALL_TRAINER_CONNECT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/rank/rank.h"
#include "trainer/collective/collective.h"
#include "trainer/options.h"
#include "trainer/rank_device.h"

namespace rollcall {

// "rank 2 on node-b", as messages name it.
std::string RankName(const v1::World& world, int which);

// Null `rank`, or a world of one: nothing is connected. On GPUs by NCCL, else
// by Gloo. `rank` and `device` must live as long as the collective.
// FAILED_PRECONDITION: some ranks have a GPU and others not, and which; to a
// rank like the one that has the state, the others go: UNAVAILABLE. Errors: see
// ConnectGloo and ConnectNccl; not to be retried within a generation.
absl::StatusOr<std::unique_ptr<Collective>> Connect(const TrainOptions& options,
                                                    Rank* rank,
                                                    RankDevice& device);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CONNECT_H_
