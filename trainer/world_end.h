// How a rank that lives on handles the end of a world.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_WORLD_END_H_
#define ROLLCALL_TRAINER_WORLD_END_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/rank/rank.h"

namespace rollcall {

// To be called when all ranks have stopped after this step; the daemon decides
// what comes next. Blocks until the generation ends. ABORTED: it has ended. Any
// other error: the agent is gone.
absl::Status WaitAtBoundary(Rank& rank, int64_t step);

// Whether a failure in a world may be caused by the end of that world. When a
// peer goes, its connections break before the agent hears of it.
bool MayBeWorldEnd(const absl::Status& status, const Rank& rank);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_WORLD_END_H_
