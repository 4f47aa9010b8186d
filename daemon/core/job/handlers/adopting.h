// Adoption of a run that this daemon has no memory of. The run's agents send
// its last world; when over half of that world's members send the same bytes,
// the run continues.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_ADOPTING_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_ADOPTING_H_

#include <vector>

#include "daemon/core/events.h"
#include "daemon/core/job/state/job_state.h"

namespace rollcall {

// Returns true if the claim is kept, and its stream waits until enough agents
// claim the same world or until the time for claims is over; or if the agent
// was told to redial.
bool TakeClaim(JobState& job, const Attend& attend);

// Adopts the run that enough claims agree on, if any. Returns the claims of all
// runs: those of the adopted run attend now. Empty: none was adopted.
std::vector<Attend> MaybeAdopt(JobState& job, bool time_is_over);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_ADOPTING_H_
