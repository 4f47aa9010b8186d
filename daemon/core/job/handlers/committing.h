// The second phase of a world: its members prepare, and it is committed.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_COMMITTING_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_COMMITTING_H_

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void OnPrepared(JobState& job, Node& node, const v1::Prepared& prepared);

// Commits if all members are prepared, no check result is outstanding, and the
// daemon is not isolated.
void MaybeCommit(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_COMMITTING_H_
