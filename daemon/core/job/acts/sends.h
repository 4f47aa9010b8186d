// Messages that members, spares and waiting nodes get because the job changed.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_SENDS_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_SENDS_H_

#include <cstdint>

#include "daemon/core/job/state/job_state.h"

namespace rollcall {

// Tells a spare why it has no seat.
void TellSpare(JobState& job, const Node& node);

// Sends spares their reason again, because the last one is no longer true.
void TellSpares(JobState& job);

// Tells waiting nodes what they wait for, if that has changed, and sets when to
// tell them next: in a second, or in a minute while a world runs. While a world
// is formed, all that wait are told.
void TellWaiting(JobState& job);

// Sends Abort to the members of the generation that has ended.
void TellAbort(JobState& job);

// Tells the node's agent that it may exit.
void SendLeft(JobState& job, const Node& node);

// Sends what GenerationStore has for the members.
void SendStoreMessages(JobState& job);

// Ends the node's stream and returns false if it names a rank that the node
// does not have.
bool HasRankOrClose(JobState& job, const Node& node, uint32_t local_rank);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_SENDS_H_
