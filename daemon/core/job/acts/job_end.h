// The end of a job, with its End for each agent.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_JOB_END_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_JOB_END_H_

#include <string>

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The job ends now with this End. Requires that it has not ended.
void EndJob(JobState& job, v1::End end);

// The same, with the root causes of all failures.
void EndJobFailed(JobState& job, v1::End end);

// All ranks have exited 0.
void EndJobFinished(JobState& job);

// No world can be formed.
void FailRendezvous(JobState& job, v1::ReasonCode code,
                    const std::string& reason);

// Sends each attended agent its End.
void SendEnd(JobState& job);

// Forgets the ended job once no agent attends or may come back, or the time for
// agents that do not know of the end is over.
void MaybeForget(JobState& job);

// Too few members of the run that could be adopted came, so that run counts as
// ended: the streams of its agents are closed.
void RefuseClaims(JobState& job);

// Ends a job without nodes that has never run, after reattach_grace. A job uses
// one of the daemon's limited places only while nodes attend. An agent that has
// lost its stream gets as long to come back as after a restart of the daemon. A
// job that has run keeps its place until join_timeout.
void MaybeEndUnattended(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_JOB_END_H_
