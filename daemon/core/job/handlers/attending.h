// Attending: which nodes are admitted, and what a node that comes back is told.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_ATTENDING_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_ATTENDING_H_

#include "daemon/core/events.h"
#include "daemon/core/job/state/job_state.h"

namespace rollcall {

void On(JobState& job, const Attend& attend);

// The time for claims is over.
void EndClaims(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_ATTENDING_H_
