// Requests to leave, to stop and to evict; step boundaries; and newcomers, for
// whom a world ends at such a boundary.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_LEAVING_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_LEAVING_H_

#include <string>

#include "daemon/core/events.h"
#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void On(JobState& job, const DrainAsked& drain);
void On(JobState& job, const EvictAsked& evict);
void On(JobState& job, const StopAsked& stop);

void OnLeaving(JobState& job, Node& node, const v1::Leaving& leaving);

// For a node on which no rank runs.
void LeaveAtOnce(JobState& job, Node& node, const std::string& reason);

void OnNoticeSeen(JobState& job, Node& node, const v1::NoticeSeen& seen);

// A rank has ended because of a notice, or its agent ended it.
void OnEndedForNotice(JobState& job, const Node& node,
                      const v1::RankExited& exited);

// The node's ranks have reached the boundary.
void AtBoundary(JobState& job, Node& node);

// All members have reached the boundary, or the deadline has passed.
void EndAtBoundary(JobState& job);

// Asks for a boundary if newcomers are due a seat in the running world.
void MaybeGrow(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_LEAVING_H_
