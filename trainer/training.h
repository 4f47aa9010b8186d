// Training: one rank's part in a run, over all the worlds that it is in.
//
// In each world it connects with its peers, enters with the state that counts
// (a rank's, a checkpoint's, or none), steps, says how it goes, writes
// checkpoints where that is its part, and stops at a boundary when somebody
// asked for one.
//
// Thread rule: main's thread.
#ifndef ROLLCALL_TRAINER_TRAINING_H_
#define ROLLCALL_TRAINER_TRAINING_H_

#include "absl/status/statusor.h"
#include "client/rank/rank.h"
#include "trainer/leave_signals.h"
#include "trainer/options.h"

namespace rollcall {

// What a rank without an agent exits with that was asked to stop before its
// last step, and has saved where it could; sysexits' EX_TEMPFAIL. With an agent
// the job's requeue code is the launcher's to give.
inline constexpr int kExitAskedToStop = 75;

// Trains to the last step. `rank` is null where no agent started this process:
// a world of one. `signals` take its node along, or end a run without an agent
// at its next step. Returns what to exit with: 0 or kExitAskedToStop. Errors
// name what a person must fix.
absl::StatusOr<int> Train(const TrainOptions& options, Rank* rank,
                          LeaveSignals& signals);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_TRAINING_H_
