// The end of a world, as a rank meets it that lives on.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_WORLD_END_H_
#define ROLLCALL_TRAINER_WORLD_END_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/rank/rank.h"

namespace rollcall {

// All ranks have stopped after this step; what comes next is the daemon's.
// Blocks until the generation ends. ABORTED: it has; else the agent is gone.
absl::Status StandAtBoundary(Rank& rank, int64_t step);

// Whether a failure in a world may be no more than its end. A peer that goes
// takes its connections along before the agent has heard of it.
bool MayBeItsEnd(const absl::Status& status, const Rank& rank);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_WORLD_END_H_
