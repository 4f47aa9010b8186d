// The end of a batch: its entries are journaled, then its effects are carried
// out in order.
//
// Thread rule: the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_COMMIT_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_COMMIT_H_

#include "daemon/server/loop/state/loop_state.h"

namespace rollcall {

void Commit(LoopState& loop);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_COMMIT_H_
