// The start of ranks in a world: how long they may take until their first step.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_FIRST_STEPS_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_FIRST_STEPS_H_

#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/job/state/job_state.h"

namespace rollcall {

// A world has begun to run.
void BeginStarts(JobState& job);

// The node's ranks have made their first step. `took`: how long the start took,
// as the agent reports it; zero: not known.
void NoteStarted(JobState& job, Node& node,
                 absl::Duration took = absl::ZeroDuration());

// Tells agents how long ranks may take until their first step.
void TellRanksLink(JobState& job, std::vector<SessionId> sessions);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_FIRST_STEPS_H_
