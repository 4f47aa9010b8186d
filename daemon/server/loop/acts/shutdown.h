// The end of a loop, and of one that no longer leads.
//
// Thread rule: as LoopState.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_ACTS_SHUTDOWN_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_ACTS_SHUTDOWN_H_

#include "absl/status/status.h"
#include "daemon/server/loop/state/loop_state.h"

namespace rollcall {

// Ends all streams and calls, and the loop.
void EndAll(LoopState& loop, const absl::Status& status);
// Called when this daemon no longer leads. Drops the batch's effects and ends
// the loop.
void StandDown(LoopState& loop);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_ACTS_SHUTDOWN_H_
