// What a job journals besides worlds, and the fence whose opening is journaled.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_RECORDS_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_RECORDS_H_

#include "daemon/core/job/state/job_state.h"

namespace rollcall {

void JournalLeaving(JobState& job);

void JournalFinished(JobState& job);

// Journals finished nodes if the record is due: several make one record.
void MaybeJournalFinished(JobState& job);

// The record goes out with the actions of the Step that changed the epochs.
void JournalNodeEpochs(JobState& job);

// Journals that the fence is open, so that the next daemon does not wait for it
// either.
void FenceOpened(JobState& job);

// The node's ranks of all earlier generations are gone. Opens the fence if the
// node is one of its members.
void NoteStopped(JobState& job, const Node& node);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_RECORDS_H_
