// How a job begins from its journal, or with a world that its members claim.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_RESTORING_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_RESTORING_H_

#include <optional>

#include "absl/status/status.h"
#include "daemon/core/job/state/job_state.h"
#include "daemon/core/job/state/journal_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// OK if TakeUpJournal accepts this state; see Job::CheckJournal.
absl::Status CheckRestorable(const JournalState& state);

// Continues a run from its journal, which CheckRestorable has passed. `job` is
// new and has the run's settings.
void TakeUpJournal(JobState& job, const JournalState& state);

// Takes over a world from the journal or from its members' claims, and waits
// for all members. `world_commit`: set if the world was committed, so that it
// runs.
void TakeUpWorld(JobState& job, const v1::World& world,
                 const v1::Proposal& proposal,
                 const std::optional<v1::WorldCommit>& world_commit);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_RESTORING_H_
