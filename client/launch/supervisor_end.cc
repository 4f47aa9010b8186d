// Supervisor: how a run is ended, and how its launcher ends.
#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/launch/supervisor.h"
#include "daemon/base/clock.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/name_list.h"
#include "daemon/core/exit_codes.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

constexpr absl::Duration kStopTimeout = absl::Seconds(1);
// After a request to end at once, agents get this time to restore hosts files.
constexpr absl::Duration kKillPatience = absl::Seconds(5);
// A stop request that failed is sent again after this time.
constexpr absl::Duration kStopAgain = absl::Seconds(1);
// How long a daemon that does not answer is asked to stop the run, before its
// agents are.
constexpr absl::Duration kDaemonPatience = absl::Seconds(3);
// How long to wait for agents before the user is told.
constexpr absl::Duration kTellAfter = absl::Seconds(5);
constexpr size_t kAgentsNamedMax = 8;

}  // namespace

void Supervisor::OnSignal(int signal) {
  if (signal == SIGWINCH || signal == SIGCONT) return story_.Redraw();
  // Agents pass it on to their ranks.
  if (signal == SIGUSR2) return agents_.KillAgents(signal);
  ++stop_.interrupts;
  // A run that is already over cannot be stopped gracefully first.
  const bool again = stop_.interrupts > 1 || daemon_.end();
  int code = 128 + signal;
  // Schedulers send these before they reclaim the machine.
  if (signal == SIGUSR1 || signal == SIGTERM) {
    code = options_.settings.requeue_exit_code();
  }
  if (!again) {
    story_.Say(signal == SIGINT
                   ? "stopping the run; once more ends it at once"
                   : absl::StrCat("stopping the run (signal ", signal, ")"));
  }
  Stop(stop_.request ? stop_.request->exit_code() : code,
       signal == SIGINT
           ? "stopped by Ctrl-C"
           : absl::StrCat("stopped by signal ", signal, " to the launcher"),
       again);
}

absl::Duration Supervisor::StopGrace() const {
  return FromProto(options_.settings.stop_grace());
}

void Supervisor::Stop(int exit_code, const std::string& reason, bool now) {
  story_.Quiet();
  stop_.request.emplace();
  stop_.request->set_exit_code(exit_code);
  stop_.request->set_reason(reason);
  stop_.request->set_now(now);
  stop_.asked_at = MonotonicNow();
  // Linked ranks have the notice time to reach a boundary, and after it their
  // grace.
  const absl::Duration notice = FromProto(options_.settings.notice_time());
  KillAt(MonotonicNow() +
         (now ? kKillPatience : notice + StopGrace() + kStopPatience));
  SendStop();
}

void Supervisor::KillAt(absl::Time at) {
  if (at >= overdue_.kill_at) return;
  overdue_.kill_at = at;
  overdue_.tell_at = MonotonicNow() + kTellAfter;
}

void Supervisor::TellWhoIsWaitedFor(absl::Time now) {
  const absl::Duration left =
      absl::Ceil(overdue_.kill_at - now, absl::Seconds(1));
  if (agents_.empty() || left < kTellAfter ||
      overdue_.kill_at == absl::InfiniteFuture()) {
    return;
  }
  std::vector<std::string> agents;
  for (const AgentRecord& agent : agents_.Records()) {
    const pid_t pid = agent.process.pid;
    agents.push_back(absl::StrCat(
        agent.name, " (process ", pid,
        IsStopped(pid) ? absl::StrCat(", stopped by a signal; `kill -CONT ",
                                      pid, "` continues it")
                       : "",
        ")"));
  }
  story_.Say(absl::StrCat("waiting for the agent of ",
                          NameList(std::move(agents), kAgentsNamedMax),
                          " to end, for ", absl::FormatDuration(left),
                          " at most; Ctrl-C ends it at once"));
}

void Supervisor::RefreshTokens() {
  const auto refresh = [this](const char* name, v1::JoinToken& token) {
    const auto text = ReadOwnFile(state_->path() + name);
    if (!text.ok()) return;
    auto read = ParseTokenText(*text);
    if (read.ok()) token = *std::move(read);
  };
  refresh(kAdminTokenFile, address_.token);
  refresh(kWorkerTokenFile, worker_token_);
}

void Supervisor::SendStop() {
  RefreshTokens();
  if (address_.endpoints.empty()) {  // No daemon runs yet.
    GiveUp("stopped before the daemon listened");
    return;
  }
  auto stopped = AdminClient(address_).Stop(*stop_.request, kStopTimeout);
  stop_.again_at = absl::InfiniteFuture();
  if (stopped.ok()) {
    overdue_.term_at = absl::InfiniteFuture();
    return;
  }
  const absl::Time now = MonotonicNow();
  // A daemon that is started again is asked once it listens.
  if (daemon_.pid() >= 0) stop_.again_at = now + kStopAgain;
  // SIGTERM ends the agents without a daemon.
  const bool refused = absl::IsUnauthenticated(stopped.status()) ||
                       absl::IsPermissionDenied(stopped.status());
  if (stop_.request->now() || refused) {
    agents_.Kill(SIGTERM);
  } else if (now < stop_.asked_at + kDaemonPatience) {
    overdue_.term_at = stop_.asked_at + kDaemonPatience;
  }
}

void Supervisor::GiveUp(const std::string& why) {
  if (gave_up_.why.empty()) gave_up_.why = why;
  daemon_.CancelRestart();
  stop_.again_at = absl::InfiniteFuture();
  agents_.Kill(SIGTERM);
  daemon_.Kill(SIGTERM);
  KillAt(MonotonicNow() + StopGrace() + kKillPatience);
}

int Supervisor::Finish() {
  feed_.End();
  const std::optional<v1::End>& end = daemon_.end();
  int code = own_exit_.value_or(kExitRendezvous);
  if (!gave_up_.why.empty()) code = gave_up_.code;
  if (stop_.request) code = stop_.request->exit_code();
  if (end) code = end->exit_code();
  if (!end && code == 0) code = kExitRendezvous;
  story_.Ended(end, code, gave_up_.why);
  if (!left_) ForgetRun(state_->path(), options_.ephemeral && end.has_value());
  return code;
}

}  // namespace rollcall
