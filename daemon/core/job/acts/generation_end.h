// The end of a generation: the next one is gathered, or the job ends.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_GENERATION_END_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_GENERATION_END_H_

#include <string>

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Ends the generation that is proposed or runs; requires HasWorld(). The phase
// stays as it is: the caller sets the next one. `tell`: send Abort to the
// members; otherwise their ranks are left running.
void EndGeneration(JobState& job, v1::ReasonCode code,
                   const std::string& reason, const std::string& node,
                   bool tell = true);

// The job gathers nodes for its next world. `at_once`: without the last call
// for newcomers.
void Gather(JobState& job, bool at_once);

// Ends the current generation; requires HasWorld(). The next one is formed as
// soon as possible, unless all ranks were asked to end: then the job ends.
void Reform(JobState& job, v1::ReasonCode code, const std::string& reason,
            const std::string& node);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_GENERATION_END_H_
