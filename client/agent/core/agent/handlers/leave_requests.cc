#include "client/agent/core/agent/handlers/leave_requests.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/agent/core/agent/acts/departing.h"
#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/stops.h"
#include "client/agent/core/agent/acts/telling.h"
#include "client/agent/core/agent/acts/watchdog.h"
#include "client/agent/core/agent/acts/world_end.h"
#include "daemon/base/durations.h"

namespace rollcall {

void On(AgentState& agent, const LeaveAsked& leave) {
  switch (agent.leave.Take(leave.signal, agent.departure.leaves(),
                           agent.departure.lingers())) {
    case LeaveRequest::Meaning::kSame:
      return;
    case LeaveRequest::Meaning::kAtOnce:
      agent.departure.EndLinger();
      Stop(agent, absl::ZeroDuration());
      StopSetup(agent, absl::ZeroDuration());
      return Leave(agent, 128 + leave.signal,
                   absl::StrCat("signal ", leave.signal));
    case LeaveRequest::Meaning::kFirst:
      break;
  }
  if (!agent.attendance.welcomed()) {
    return Leave(agent, 128 + leave.signal,
                 absl::StrCat("signal ", leave.signal));
  }
  // Time for the ranks to reach a boundary, for stopping them, and for the
  // daemon to learn of both.
  agent.leave.WaitUntil(agent.now + agent.limits.notice_time +
                        agent.limits.stop_grace + agent.limits.lease +
                        absl::Seconds(2));
  SayLeaving(agent);
}

void On(AgentState& agent, const RankAskedToLeave& asked) {
  const auto at = agent.rank_processes.find(asked.local_rank);
  // A rank that received the agent's own signal did not ask by itself.
  if (at == agent.rank_processes.end() || !agent.running.has_value() ||
      at->second.signalled || at->second.stopping || agent.leave.made() ||
      agent.departure.leaves()) {
    return;
  }
  On(agent, LeaveAsked{SIGTERM});
  agent.leave.IsOfRank();
}

void OnEnd(AgentState& agent, const v1::End& end) {
  if (end.now()) {
    agent.departure.EndLinger();
    Stop(agent, absl::ZeroDuration());
    StopSetup(agent, absl::ZeroDuration());
  }
  if (agent.departure.job_ended()) {
    // A second End may report that the job no longer lingers.
    if (!end.has_linger()) EndLinger(agent);
    return;
  }
  // After Ctrl-C the exit code is 130, which shells expect.
  const bool interrupted =
      agent.leave.signal() == SIGINT && end.code() == v1::REASON_CODE_LEAVING;
  const int code = interrupted ? 128 + SIGINT : end.exit_code();
  const absl::Duration linger = FromProto(end.linger());
  const bool kept =
      !agent.rank_processes.empty() || end.code() == v1::REASON_CODE_SETUP;
  if (end.now() || !kept || linger <= absl::ZeroDuration()) {
    return Leave(agent, code, end.reason(), end);
  }
  agent.leave.WaitNoLonger();
  agent.departure.Linger(Exit{code, end.reason(), end}, agent.now + linger);
  agent.setup.Abandon();
  UnwatchAll(agent);
  DropPreparation(agent);
  Tell(agent, Report::Kind::kState,
       absl::StrCat("the job has ended: ", end.reason(), "; ",
                    agent.rank_processes.empty() ? "this agent stays for "
                                                 : "living ranks are kept for ",
                    absl::FormatDuration(linger),
                    ", or until a signal arrives"));
}

}  // namespace rollcall
