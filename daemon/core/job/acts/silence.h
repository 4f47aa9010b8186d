// Silence. A single node that is not heard is lost (loss.h). If most nodes are
// not heard, the daemon takes itself to be isolated.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_SILENCE_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_SILENCE_H_

#include <set>
#include <string>

#include "daemon/core/job/state/job_state.h"

namespace rollcall {

// The node's stream broke. If many break at once, their leases decide.
void NoteBreak(JobState& job, Node& node);

// Begins the isolation if over half of the world is silent.
void MaybeBeginIsolation(JobState& job);

// The node sent something, or the daemon knows what happened to it. May end the
// isolation.
void HeardFrom(JobState& job, const std::string& name);

// Nodes that are still silent get one more lease. Returns their names.
std::set<std::string> EndIsolation(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_SILENCE_H_
