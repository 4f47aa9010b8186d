// What nodes report of themselves: set-up commands, facts, checks, stopped
// ranks.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_NODE_REPORTS_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_NODE_REPORTS_H_

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

void OnSetupEnded(JobState& job, Node& node, const v1::SetupEnded& ended);

void OnFactChange(JobState& job, Node& node, const v1::FactChange& change);

void OnStopped(JobState& job, Node& node, const v1::Stopped& stopped);

void OnCheckReport(JobState& job, Node& node, const v1::CheckReport& report);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_NODE_REPORTS_H_
