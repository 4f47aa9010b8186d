#include "client/agent/core/agent/handlers/leave_requests.h"

#include <csignal>
#include <utility>

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
  // A signal to the whole node reaches both its ranks and its agent; the two
  // count as one request.
  if (std::exchange(agent.leave.by_rank, false) &&
      agent.linger_until == absl::InfiniteFuture()) {
    agent.leave.signal = leave.signal;
    return;
  }
  if (agent.leave.signal != 0 || agent.exit.has_value()) {
    // The second request: leave at once.
    agent.linger_until = absl::InfiniteFuture();
    Stop(agent, absl::ZeroDuration());
    StopSetup(agent, absl::ZeroDuration());
    if (!agent.exit.has_value()) {
      Leave(agent, 128 + leave.signal, absl::StrCat("signal ", leave.signal));
    }
    return;
  }
  agent.leave.signal = leave.signal;
  if (!agent.Welcomed()) {
    return Leave(agent, 128 + leave.signal,
                 absl::StrCat("signal ", leave.signal));
  }
  // Time for the ranks to reach a boundary, for stopping them, and for the
  // daemon to learn of both.
  agent.leave.until = agent.now + agent.limits.notice_time +
                      agent.limits.stop_grace + agent.limits.lease +
                      absl::Seconds(2);
  SayLeaving(agent);
}

void On(AgentState& agent, const RankAskedToLeave& asked) {
  const auto at = agent.rank_processes.find(asked.local_rank);
  // A rank that received the agent's own signal did not ask by itself.
  if (at == agent.rank_processes.end() || !agent.running.has_value() ||
      at->second.signalled || at->second.stopping || agent.leave.signal != 0 ||
      agent.exit.has_value()) {
    return;
  }
  On(agent, LeaveAsked{SIGTERM});
  agent.leave.by_rank = true;
}

void OnEnd(AgentState& agent, const v1::End& end) {
  if (end.now()) {
    agent.linger_until = absl::InfiniteFuture();
    Stop(agent, absl::ZeroDuration());
    StopSetup(agent, absl::ZeroDuration());
  }
  if (agent.exit.has_value() && agent.exit->end.has_value()) {
    // A second End may report that the job no longer lingers.
    if (!end.has_linger()) EndLinger(agent);
    return;
  }
  agent.exit.reset();
  // After Ctrl-C the exit code is 130, which shells expect.
  const bool interrupted =
      agent.leave.signal == SIGINT && end.code() == v1::REASON_CODE_LEAVING;
  const int code = interrupted ? 128 + SIGINT : end.exit_code();
  const absl::Duration linger = FromProto(end.linger());
  const bool kept =
      !agent.rank_processes.empty() || end.code() == v1::REASON_CODE_SETUP;
  if (end.now() || !kept || linger <= absl::ZeroDuration()) {
    return Leave(agent, code, end.reason(), end);
  }
  agent.leave.until = absl::InfiniteFuture();
  agent.exit = Exit{code, end.reason(), end};
  agent.linger_until = agent.now + linger;
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
