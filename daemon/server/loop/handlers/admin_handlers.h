// What admin calls, requests of the HTTP port and watchers lead to. A call is
// authorized first, except HealthAsked and requests with `open` set. Each call
// is answered once; a watcher gets statuses until it ends.
//
// Thread rule: as LoopState.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_ADMIN_HANDLERS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_ADMIN_HANDLERS_H_

#include "daemon/server/loop/state/loop_input.h"
#include "daemon/server/loop/state/loop_state.h"

namespace rollcall {

void On(LoopState& loop, StatusAsked& asked);
void On(LoopState& loop, EventsAsked& asked);
void On(LoopState& loop, SnapshotAsked& asked);
void On(LoopState& loop, HealthAsked& asked);
void On(LoopState& loop, StopCame& came);
void On(LoopState& loop, DrainCame& came);
void On(LoopState& loop, EvictCame& came);
void On(LoopState& loop, TokenWanted& wanted);
void On(LoopState& loop, TokensAsked& asked);
void On(LoopState& loop, TokenRevoked& revoked);
void On(LoopState& loop, TokenRotated& rotated);
void On(LoopState& loop, WatchOpened& opened);
void On(LoopState& loop, WatchGone& gone);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_ADMIN_HANDLERS_H_
