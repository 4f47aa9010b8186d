// Notices: what all ranks are asked to do at one step boundary, and the nodes
// that leave there.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_NOTICE_ROUNDS_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_NOTICE_ROUNDS_H_

#include <string>

#include "absl/time/time.h"
#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Asks all ranks to stop at the same step boundary. `again`: the node had asked
// to leave before. Requires that a world runs.
void AskRanks(JobState& job, v1::NoticeKind kind, absl::Duration deadline,
              const std::string& reason, bool again = false);

// Sends the pending notice to all members.
void TellNotice(JobState& job);

// For a notice of this daemon's previous life that was not journaled. Ranks
// wait at its boundary, or have ended because of it.
void AskDuringChange(JobState& job);

// Sends and journals what Notices holds back for a moment, so that requests
// that come together make one notice.
void MaybeTellLeaving(JobState& job);

// The node is no longer asked to leave.
void ForgetLeaving(JobState& job, const std::string& name);

// The generation has ended, at its boundary or before. Nodes that were asked to
// leave do so now.
void EndNoticeRound(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_NOTICE_ROUNDS_H_
