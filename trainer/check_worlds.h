// CheckInWorlds: runs `rollcall-train --check` in one world after the other
// until one check is complete.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECK_WORLDS_H_
#define ROLLCALL_TRAINER_CHECK_WORLDS_H_

#include "client/rank/rank.h"
#include "trainer/rank/options.h"
#include "trainer/rank/rank_end.h"

namespace rollcall {

// Checks the rank's current world; `rank` null: a world of one rank. If that
// world ends during the check, checks the next one, from the start. Prints the
// reasons. Exit codes: 0, 10 (a warning), 20 (worth another try), 30 (a person
// must fix something).
RankEnd CheckInWorlds(const TrainOptions& options, Rank* rank);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_WORLDS_H_
