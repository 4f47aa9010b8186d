// What agents' streams lead to, from Hello to the end.
//
// Thread rule: as LoopState.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_STREAM_HANDLERS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_STREAM_HANDLERS_H_

#include "daemon/server/loop/state/loop_input.h"
#include "daemon/server/loop/state/loop_state.h"

namespace rollcall {

void On(LoopState& loop, StreamOpened& opened);
void On(LoopState& loop, IntroductionCame& came);
void On(LoopState& loop, HelloCame& came);
void On(LoopState& loop, MessageCame& came);
void On(LoopState& loop, StreamGone& gone);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_HANDLERS_STREAM_HANDLERS_H_
