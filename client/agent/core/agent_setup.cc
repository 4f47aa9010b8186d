// Agent: the set-up command, which runs before the node gets a seat (--setup).
#include <string>

#include "absl/strings/str_cat.h"
#include "client/agent/core/agent.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {

void Agent::MaybeBeginSetup(const v1::Welcome& welcome) {
  if (!owes_setup_ended_ || exit_.has_value()) return;
  if (!welcome.takes_setup_ended()) {
    owes_setup_ended_ = false;
    if (!setup_.pending()) return;
    return Leave(kExitRendezvous,
                 "--setup: the daemon is of an older version, which does not "
                 "wait for a set-up command; run the launcher or rollcalld of "
                 "this version, or leave --setup out");
  }
  if (setup_.Begin(now_, limits_)) {
    actions_.push_back(RunSetup{});
    Tell(Report::Kind::kState, "the set-up command runs");
  }
  SaySetupEnded();
}

void Agent::On(const SetupShellEnded& ended) {
  setup_.ShellEnded(ended.code, ended.signal, ended.stderr_tail);
}

void Agent::On(const SetupGone& gone) {
  if (!setup_.running()) return;
  setup_.Gone(now_, limits_);
  if (exit_.has_value()) return;
  // The launcher's node always has a seat, and the other nodes are compared
  // with it.
  if (hello_.launcher() && !gone.unusable_file.empty()) {
    return Leave(kExitRendezvous, gone.unusable_file);
  }
  if (!setup_.ended().has_value()) {
    return Tell(Report::Kind::kWarning,
                absl::StrCat("try ", setup_.tries(),
                             " of the set-up command failed; it runs again in ",
                             absl::FormatDuration(limits_.setup_retry_delay)));
  }
  if (setup_.failed()) {
    Tell(Report::Kind::kError,
         absl::StrCat("the set-up command ", Describe(*setup_.ended())));
  } else {
    Tell(Report::Kind::kState, "the set-up command has succeeded");
  }
  SaySetupEnded();
}

void Agent::AdvanceSetup() {
  switch (setup_.Tick(now_)) {
    case Setup::Due::kNothing:
      return;
    case Setup::Due::kStart:
      actions_.push_back(RunSetup{});
      return;
    case Setup::Due::kStop:
      Tell(Report::Kind::kWarning,
           absl::StrCat("the set-up command has not ended within ",
                        absl::FormatDuration(limits_.setup_timeout),
                        " (--setup-timeout); it is ended"));
      actions_.push_back(StopSetupCommand{limits_.stop_grace});
      return;
  }
}

void Agent::StopSetup(absl::Duration grace) {
  if (setup_.Stop(grace, now_)) actions_.push_back(StopSetupCommand{grace});
}

void Agent::SaySetupEnded() {
  if (link_ != Link::kAttending || !owes_setup_ended_ ||
      !setup_.ended().has_value()) {
    return;
  }
  owes_setup_ended_ = false;
  v1::AgentMessage message;
  *message.mutable_setup_ended() = *setup_.ended();
  Tell(std::move(message));
}

}  // namespace rollcall
