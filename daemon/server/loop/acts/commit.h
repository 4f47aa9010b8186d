// The end of a batch: its entries are journaled, then its effects are carried
// out in order.
//
// Thread rule: as LoopState.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_ACTS_COMMIT_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_ACTS_COMMIT_H_

#include "daemon/server/loop/state/loop_state.h"

namespace rollcall {

// Journals the batch, then carries out its effects. Jobs whose entries cannot
// be written are set back. If this daemon no longer leads, drops the effects
// and ends the loop. No effect after `quit`.
void Commit(LoopState& loop);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_ACTS_COMMIT_H_
