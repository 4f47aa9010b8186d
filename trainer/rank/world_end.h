// How a rank that outlives its world handles the end of the world.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_RANK_WORLD_END_H_
#define ROLLCALL_TRAINER_RANK_WORLD_END_H_

#include <cstdint>

#include "absl/status/status.h"
#include "client/rank/rank.h"

namespace rollcall {

// To be called when all ranks have stopped after this step. Blocks until the
// generation ends; the daemon decides what comes next. ABORTED: the generation
// has ended. Any other error: the agent is gone.
absl::Status WaitAtBoundary(Rank& rank, int64_t step);

// Whether the end of the world may have caused this failure, so that the rank
// waits for the next one; otherwise it ends. When a peer goes, its connections
// break before the agent learns of it. `aborted`: Rank::aborted.
inline bool MayBeWorldEnd(const absl::Status& status, bool aborted) {
  return aborted || absl::IsAborted(status) || absl::IsUnavailable(status);
}

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_WORLD_END_H_
