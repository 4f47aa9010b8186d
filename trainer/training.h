// Training: one rank's part in a run, over all its worlds.
//
// In each world the rank connects to its peers, enters with the right state
// (another rank's, a checkpoint's, or none), trains, reports progress, writes
// checkpoints if that is its task, and stops at a boundary when asked to.
//
// Thread rule: the main thread.
#ifndef ROLLCALL_TRAINER_TRAINING_H_
#define ROLLCALL_TRAINER_TRAINING_H_

#include "client/rank/rank.h"
#include "trainer/rank/leave_signals.h"
#include "trainer/rank/options.h"
#include "trainer/rank/rank_end.h"

namespace rollcall {

// The exit code of a rank without an agent that was asked to stop before its
// last step, after it saved if it could (EX_TEMPFAIL of sysexits). With an
// agent, the launcher exits with the job's requeue code.
inline constexpr int kExitAskedToStop = 75;

// Trains up to the last step. `rank` is null if no agent started this process,
// which is then a world of one rank. `signals` make the rank's node leave, or
// without an agent end the run at its next step. Exit codes: 0 or
// kExitAskedToStop, the latter only without an agent. The end is permanent if
// the ranks of the job's first world do not agree or its checkpoint is of
// another training, and if the training diverges.
RankEnd Train(const TrainOptions& options, Rank* rank, LeaveSignals& signals);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_TRAINING_H_
