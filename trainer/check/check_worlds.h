// CheckInWorlds: `rollcall-train --check`, from world to world until one has
// been checked to its end.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECK_CHECK_WORLDS_H_
#define ROLLCALL_TRAINER_CHECK_CHECK_WORLDS_H_

#include "client/rank/rank.h"
#include "trainer/options.h"

namespace rollcall {

// Null `rank`: alone. Checks the world that the rank is in; where it ends
// meanwhile, the next one, from the beginning. Returns what the process is to
// exit with, having said why: 0, 10 (a warning), 20 (worth another try), 30 (a
// person must fix something).
int CheckInWorlds(const TrainOptions& options, Rank* rank);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_CHECK_WORLDS_H_
