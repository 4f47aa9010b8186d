// The start of ranks in a world: how long they may take until they link or
// publish a step.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_FIRST_STEPS_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_FIRST_STEPS_H_

#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/job/state/job_state.h"

namespace rollcall {

// A world has begun to run: its start times and the account of its steps begin.
void BeginStarts(JobState& job);

// The node's ranks have linked or published a step. No effect if the node was
// in no world since it attended. `took`: how long the start took, as the agent
// reports it; zero: not known.
void NoteStarted(JobState& job, Node& node,
                 absl::Duration took = absl::ZeroDuration());

// Tells agents how long ranks may take until they link or
// publish a step.
void TellRanksLink(JobState& job, std::vector<SessionId> sessions);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_FIRST_STEPS_H_
