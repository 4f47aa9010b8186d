#include "client/agent/core/agent/acts/setup_tries.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/agent/core/agent/acts/departing.h"
#include "client/agent/core/agent/acts/owed_messages.h"
#include "client/agent/core/agent/acts/telling.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {

void MaybeBeginSetup(AgentState& agent, const v1::Welcome& welcome) {
  if (!agent.setup.awaited() || agent.departure.leaves()) return;
  if (!welcome.takes_setup_ended()) {
    agent.setup.NotAwaited();
    if (!agent.setup.pending()) return;
    return Leave(agent, kExitRendezvous,
                 "--setup: the daemon is of an older version, which does not "
                 "wait for a set-up command; run the launcher or rollcalld of "
                 "this version, or leave --setup out");
  }
  if (agent.setup.Begin(agent.now, agent.limits)) {
    agent.actions.push_back(RunSetup{});
    Tell(agent, Report::Kind::kState, "the set-up command runs");
  }
  SaySetupEnded(agent);
}

void AdvanceSetup(AgentState& agent) {
  switch (agent.setup.Tick(agent.now)) {
    case Setup::Due::kNothing:
      return;
    case Setup::Due::kStart:
      agent.actions.push_back(RunSetup{});
      return;
    case Setup::Due::kStop:
      Tell(agent, Report::Kind::kWarning,
           absl::StrCat("the set-up command has not ended within ",
                        absl::FormatDuration(agent.limits.setup_timeout),
                        " (--setup-timeout); it is ended"));
      agent.actions.push_back(StopSetupCommand{agent.limits.stop_grace});
      return;
  }
}

void On(AgentState& agent, const SetupShellEnded& ended) {
  agent.setup.ShellEnded(ended.code, ended.signal, ended.stderr_tail);
}

void On(AgentState& agent, const SetupGone& gone) {
  if (!agent.setup.running()) return;
  agent.setup.Gone(agent.now, agent.limits);
  if (agent.departure.leaves()) return;
  // The launcher's node always has a seat, and the other nodes are compared
  // with it.
  if (agent.hello.launcher() && !gone.unusable_file.empty()) {
    return Leave(agent, kExitRendezvous, gone.unusable_file);
  }
  if (!agent.setup.ended().has_value()) {
    return Tell(
        agent, Report::Kind::kWarning,
        absl::StrCat("try ", agent.setup.tries(),
                     " of the set-up command failed; it runs again in ",
                     absl::FormatDuration(agent.limits.setup_retry_delay)));
  }
  if (agent.setup.failed()) {
    Tell(agent, Report::Kind::kError,
         absl::StrCat("the set-up command ", Describe(*agent.setup.ended())));
  } else {
    Tell(agent, Report::Kind::kState, "the set-up command has succeeded");
  }
  SaySetupEnded(agent);
}

}  // namespace rollcall
