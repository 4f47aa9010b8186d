// Steps of the loop's jobs, and jobs that are read from the journal. What a
// step decides goes into the batch.
//
// Thread rule: as LoopState.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_ACTS_JOB_STEPS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_ACTS_JOB_STEPS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/server/loop/state/loop_state.h"

namespace rollcall {

// Steps the job at LoopState::Now and adds its actions to the batch.
void StepJob(LoopState& loop, LiveJob& live, const Event& event);
// Steps all jobs whose Tick is due.
void TickJobs(LoopState& loop, absl::Time now);
// Starts a run that has just been made.
void StartMade(LoopState& loop, LiveJob& made);
// Starts a job whose run continues from the journal.
void StartTakenUp(LoopState& loop, LiveJob& live, absl::Time now);
// Continues the only job from the journal, or starts a new run of it.
void TakeUpOnlyJob(LoopState& loop, absl::Time now);
// The keys are jobs; the values say why their part of the batch could not be
// written. Ends their streams, and reads the jobs again later.
void SetBackJobs(LoopState& loop, std::map<std::string, absl::Status> failed);
// Reads the job again if it was set back. The job may have ended: its end may
// have been written although the journal returned an error. UNAVAILABLE: the
// journal cannot be read now.
absl::Status TakeBack(LoopState& loop, const std::string& job, absl::Time now);
// Reads all jobs that were set back, if it is time. Usually a returning agent
// causes a TakeBack earlier. This is for jobs without agents, which have
// deadlines too.
void TakeBackJobs(LoopState& loop, absl::Time now);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_ACTS_JOB_STEPS_H_
