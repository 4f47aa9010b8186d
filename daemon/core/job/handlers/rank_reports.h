// What members report of their ranks, and what ranks send each other through
// the daemon.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_RANK_REPORTS_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_RANK_REPORTS_H_

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void OnHeartbeat(JobState& job, Node& node, const v1::Heartbeat& heartbeat);

void OnRankExited(JobState& job, Node& node, const v1::RankExited& exited);

void OnExchange(JobState& job, Node& node, const v1::ExchangeIn& in);

void OnStore(JobState& job, Node& node, const v1::StoreIn& in);

void OnRankStalled(JobState& job, Node& node, const v1::RankStalled& stalled);

// Ends the generation if Hangs finds that a rank hangs.
void MaybeEndHung(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_RANK_REPORTS_H_
