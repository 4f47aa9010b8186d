// Failures: root cause, blame window, restarts, and what blame means for a
// node: checks between two generations, and quarantine.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_BLAME_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_BLAME_H_

#include <string>

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Progress was made: blame counts and charged restarts go back to 0.
void MadeProgress(JobState& job);

// Changes the reason of the next generation to this root cause.
void BlameInReform(JobState& job, const v1::RootCause& cause);

// If the node is lost within one lease of a rank's failure, the node is the
// root cause.
void BlameLostNode(JobState& job, const Node& node, v1::ReasonCode code,
                   const std::string& reason);

// A rank has exited with a failure, in this generation or in one whose blame
// window is open.
void RankFailed(JobState& job, Node& node, const v1::RankExited& exited);

// The running generation ends because a rank failed: the next one is formed or,
// without a restart left, the blame window opens. `permanent`: another try
// would fail too, so no restart is spent on it.
void GenerationFailed(JobState& job, v1::RootCause cause,
                      bool permanent = false);

// Ends the blame window when all members have stopped, or after one lease.
void MaybeEndBlameWindow(JobState& job);

// Unquarantines nodes that were to blame if fewer than nodes_min are left
// without them. `missing`: how many are needed.
void ReleaseTheBlamed(JobState& job, size_t missing);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_BLAME_H_
