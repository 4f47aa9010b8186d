// JournalState: what a journal contains of a job, for Job::Restore.
#ifndef ROLLCALL_DAEMON_CORE_JOB_STATE_JOURNAL_STATE_H_
#define ROLLCALL_DAEMON_CORE_JOB_STATE_JOURNAL_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/membership/node_epochs.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/journal.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The journal's content for the job's last run; see Journal::Kind.
struct JournalState {
  std::string run;
  v1::JobSettings settings;
  // The highest generation that was ever proposed, or that a daemon whose
  // memory was lost may have proposed; 0: none.
  uint64_t generation = 0;
  // The last generation, if it was proposed and has not ended.
  std::optional<v1::Proposal> proposal;
  // The world commit of `proposal`, if it was committed.
  std::optional<v1::WorldCommit> world_commit;
  // The nodes that were asked to leave and are still here; or that all ranks
  // were asked to end.
  std::optional<v1::Notice> leaving;
  // Nodes whose ranks have all exited 0 in the last generation.
  std::optional<v1::FinishedNodes> finished;
  // The last committed world, from its end until the next world is committed:
  // its proposal, its world commit, and the nodes whose ranks had all exited 0
  // or were never started.
  std::optional<v1::Proposal> ran_proposal;
  std::optional<v1::WorldCommit> ran_world_commit;
  std::optional<v1::FinishedNodes> ran_finished;
  // Set if the run has ended.
  std::optional<v1::End> end;
  uint32_t restarts_charged = 0;
  NodeEpochs node_epochs;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_STATE_JOURNAL_STATE_H_
