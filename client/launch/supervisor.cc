#include "client/launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/launch/own_node.h"
#include "client/launch/takeover/kept_run.h"
#include "daemon/base/clock.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// The time for agents to end after the daemon has ended with the job. An agent
// that has not received the end by then redials a daemon that is gone.
constexpr absl::Duration kEndPatience = absl::Seconds(3);
constexpr absl::Duration kNeverRanPatience = absl::Milliseconds(500);
// If agents end while the job goes on, the daemon gets this time to notice that
// itself.
constexpr absl::Duration kAgentPatience = absl::Seconds(2);
// If the daemon does not answer whether ranks run, it is asked again after this
// time.
constexpr absl::Duration kJudgeAgain = absl::Seconds(1);

// Whether a world was committed: only then are there ranks.
bool HasRun(const v1::JobStatus& status) {
  return status.history().commits() > 0 ||
         status.state() == v1::JOB_STATE_RUNNING;
}

}  // namespace

bool Supervisor::Done() const {
  return left_ || (agents_.empty() && daemon_.pid() < 0 &&
                   daemon_.restart_at() == absl::InfiniteFuture());
}

absl::Duration Supervisor::Timeout() const {
  const absl::Time now = MonotonicNow();
  const absl::Time until = std::min(
      {daemon_.restart_at(), daemon_.beats_due(), stop_.again_at,
       overdue_.term_at, overdue_.kill_at, overdue_.tell_at,
       ended_agents_.judge_at, failed_hosts_.judge_at, story_.NextShow(now)});
  return std::clamp(until - now, absl::ZeroDuration(), absl::Minutes(1));
}

void Supervisor::Wait() {
  std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0},
                             {feed_.fd(), POLLIN, 0},
                             {daemon_.fd(), POLLIN, 0},
                             {daemon_.exit_fd(), POLLIN, 0},
                             {story_.fd(), POLLIN, 0}};
  agents_.AddTo(fds);
  poll(fds.data(), fds.size(),
       static_cast<int>(
           absl::ToInt64Milliseconds(Timeout() + absl::Microseconds(999))));
  if (fds[4].revents != 0) story_.Rung();
  if (auto status = feed_.Take()) {
    job_ended_ = status->has_exit_code();
    ran_ = ran_ || HasRun(*status);
    story_.Heard(*std::move(status), MonotonicNow());
  }
  if (daemon_.fd() >= 0 && daemon_.Read()) DaemonListens();
  TellNews();
  bool child = false;
  while (const int signal = signals_.Read()) {
    child = child || signal == SIGCHLD;
    if (signal != SIGCHLD) OnSignal(signal);
  }
  if (child) Reap();
  for (const LocalAgents::Ended& agent : agents_.TakeEnded()) AgentEnded(agent);
  if (fds[3].fd >= 0 && fds[3].revents != 0) DaemonDied(std::nullopt);
  OnTimers();
}

void Supervisor::OnTimers() {
  const absl::Time now = MonotonicNow();
  if (now >= daemon_.restart_at()) {
    if (daemon_.Restart().ok()) {
      KeepRecord();
      daemon_.Release();
    } else {
      const bool again = daemon_.Died(now, std::nullopt, false);
      DaemonFailed("no daemon can be started", again, false);
    }
  }
  if (now >= daemon_.beats_due() && daemon_.StandsStill(now)) {
    story_.Say(absl::StrCat("the daemon (pid ", daemon_.pid(),
                            ") has stood still for 15 s: something has stopped "
                            "it, or its disk does "
                            "not answer; it is killed"));
    daemon_.Kill(SIGKILL);
  }
  if (now >= ended_agents_.judge_at) JudgeEndedAgents();
  if (now >= failed_hosts_.judge_at) JudgeHosts();
  if (now >= stop_.again_at) SendStop();
  if (now >= overdue_.term_at) {
    overdue_.term_at = absl::InfiniteFuture();
    agents_.Kill(SIGTERM);
  }
  if (now >= overdue_.tell_at) {
    overdue_.tell_at = absl::InfiniteFuture();
    TellWhoIsWaitedFor(now);
  }
  if (now >= overdue_.kill_at) {
    overdue_.kill_at = absl::InfiniteFuture();
    overdue_.killed = true;
    agents_.Kill(SIGKILL);
    // A stopped daemon handles a signal only after SIGCONT.
    daemon_.Kill(SIGTERM);
    daemon_.Kill(SIGCONT);
  }
  story_.Show(now);
}

void Supervisor::Reap() {
  int status = 0;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == daemon_.pid()) {
      DaemonDied(status);
    } else if (const auto agent = agents_.Reaped(pid, status)) {
      AgentEnded(*agent);
    }
  }
}

void Supervisor::TellNews() {
  for (const std::string& text : daemon_.TakeNews()) {
    story_.Say(absl::StrCat("the daemon: ", text));
  }
}

std::string Supervisor::DaemonsReason() const {
  if (!daemon_.failure().empty()) {
    return absl::StrCat(": ", daemon_.failure());
  }
  const std::string words = LastLines(state_->daemon_log(), 5);
  return words.empty() ? "" : absl::StrCat("; its last log lines:\n", words);
}

void Supervisor::DaemonDied(std::optional<int> wait_status) {
  std::optional<v1::End> end;
  // An adopted daemon has no pipe to us. If its `daemon.json` is gone, it ended
  // with its job.
  if (!wait_status && !IsRunKnown(state_->path())) {
    const auto run = ReadKeptRun(state_->path(), options_.job);
    if (run.ok() && run->has_value()) end = (*run)->end;
  }
  // A restart would fail in the same way, because the flags or the folder's
  // secrets are wrong.
  const bool hopeless = wait_status && WIFEXITED(*wait_status) &&
                        (WEXITSTATUS(*wait_status) == kExitUsage ||
                         WEXITSTATUS(*wait_status) == kExitRefused);
  const bool again = daemon_.Died(MonotonicNow(), std::move(end), hopeless);
  TellNews();
  if (daemon_.end()) {
    story_.Quiet();
    agents_.KillNamed(kSubmitName, SIGTERM);
    // Agents that know of the end may still give their ranks their grace.
    // Without a world there are no ranks, and an agent that had not attended
    // yet redials a daemon that is gone.
    overdue_.term_at = MonotonicNow() +
                       (ran_ ? StopGrace() + kEndPatience : kNeverRanPatience);
    // Agents that receive SIGTERM this late give their ranks the full grace
    // from then on.
    KillAt(overdue_.term_at + StopGrace() + kStopPatience);
    return;
  }
  if (!gave_up_.why.empty()) return;
  feed_.End();
  // A limit of this machine, which applies to the launcher as well.
  if (wait_status && WIFEXITED(*wait_status) &&
      WEXITSTATUS(*wait_status) == kExitCannotStart && !daemon_.listened()) {
    gave_up_.code = kExitCannotStart;
  }
  DaemonFailed(
      absl::StrCat("the daemon ",
                   wait_status ? DescribeExit(*wait_status) : "has died",
                   daemon_.latest_listened() ? "" : " at its start"),
      again, hopeless);
}

void Supervisor::DaemonFailed(const std::string& how, bool again,
                              bool hopeless) {
  const std::string grace = absl::FormatDuration(Limits{}.daemon_grace);
  if (again && stop_.interrupts <= 1 && !(stop_.request && agents_.empty())) {
    if (daemon_.latest_listened()) {
      story_.Say(absl::StrCat(
          how, "; it is started again, and agents keep their ranks running"));
    } else if (!std::exchange(told_unstartable_, true)) {
      story_.Say(absl::StrCat(how, DaemonsReason(),
                              "\nit is started again every few seconds until "
                              "it can run, and agents keep their ranks "
                              "running; after ",
                              grace, " without a daemon the run is given up"));
    }
    return;
  }
  if (stop_.request && daemon_.listened()) {
    return GiveUp(absl::StrCat("the run was stopped; ", how,
                               " before it could say how the run ended"));
  }
  const std::string why = absl::StrCat(
      how,
      !daemon_.listened() ? ""
      : hopeless          ? ", and would again"
                          : absl::StrCat(", and none has served for ", grace),
      DaemonsReason());
  if (plan_.kind == StartPlan::Kind::kResume && !daemon_.listened()) {
    left_ = true;
    gave_up_.why = absl::StrCat(
        why, "\nthe run is left as it was; launch it again to go on with it");
    return;
  }
  GiveUp(why);
}

void Supervisor::AgentEnded(const LocalAgents::Ended& agent) {
  // Only the daemon knows how an adopted agent ended.
  if (!agent.wait_status) {
    ended_agents_.adopted.push_back(agent.name);
    ended_agents_.judge_at = MonotonicNow() + kAgentPatience;
    return;
  }
  if (agent.own) own_exit_ = ExitCodeOf(*agent.wait_status);
  if (WIFSIGNALED(*agent.wait_status)) {
    if (overdue_.killed && WTERMSIG(*agent.wait_status) == SIGKILL) {
      story_.Say(absl::StrCat("the agent of ", agent.name,
                              " did not end; it was killed"));
    } else if (!stop_.request) {
      story_.Say(absl::StrCat("the agent of ", agent.name, " ",
                              DescribeExit(*agent.wait_status)));
    }
    if (!agent.own) HostFailed(agent);
    // Once there was a world, the other nodes may go on without it.
    if (ran_ || overdue_.killed) return;
  } else if (!agent.own) {
    HostFailed(agent);
  }
  if (agent.own && *own_exit_ != 0) {
    ended_agents_.own_failed = true;
    ended_agents_.judge_at = MonotonicNow() + kAgentPatience;
    ended_agents_.own_until = MonotonicNow() + Limits{}.reattach_grace;
  }
}

void Supervisor::JudgeEndedAgents() {
  const EndedAgents ended = std::exchange(ended_agents_, {});
  // A daemon that lingers after a failure still runs, although its job has
  // ended.
  if (stop_.request || daemon_.end() || job_ended_ || !gave_up_.why.empty()) {
    return;
  }
  if (!ended.adopted.empty()) {
    story_.Say(absl::StrCat("the agent of ", absl::StrJoin(ended.adopted, ", "),
                            ", which an earlier launcher started, has ended, "
                            "and its ranks with it"));
  }
  if (!ended.own_failed) return;
  RefreshTokens();
  const auto status = AdminClient(address_).Status(kStatusTimeout);
  ran_ = ran_ || (status.ok() && HasRun(*status));
  const OwnNode found = OwnNodeAfter(own_exit_.value_or(kExitRendezvous), ran_,
                                     options_.node, status);
  if (found == OwnNode::kServed) {
    return story_.Say(absl::StrCat(
        "an agent of ", options_.node,
        " that an earlier launcher started is in the run, and the run goes on "
        "with it; this launcher does not watch that agent: if ",
        options_.node, " is lost, launch the job again"));
  }
  if (found == OwnNode::kUnknown && MonotonicNow() < ended.own_until) {
    ended_agents_.own_failed = true;
    ended_agents_.own_until = ended.own_until;
    ended_agents_.judge_at = MonotonicNow() + kJudgeAgain;
    return;
  }
  Stop(own_exit_.value_or(kExitRendezvous),
       absl::StrCat("the launcher's own agent ", options_.node, " has failed"),
       false);
}

void Supervisor::HostFailed(const LocalAgents::Ended& agent) {
  if (ExitCodeOf(*agent.wait_status) == 0) return;
  const uint32_t nodes_min = options_.settings.nodes_min();
  if (agent.name == kSubmitName) {
    failed_hosts_.why = absl::StrCat(
        "too few workers could be submitted for --nodes ", nodes_min);
  } else if (!options_.hosts.empty() && agents_.size() < nodes_min) {
    failed_hosts_.why = absl::StrCat(
        "no agent runs on ", agent.name, ", and the ", agents_.size(),
        " that are left are fewer than --nodes ", nodes_min);
  } else {
    return;
  }
  failed_hosts_.judge_at = MonotonicNow();
}

// Ends the run if no ranks run yet, because the hosts that are left are too few
// to begin. The daemon is asked, because the feed's latest state may be older
// than the failure: once ranks run, a broken connection ends nothing.
void Supervisor::JudgeHosts() {
  failed_hosts_.judge_at = absl::InfiniteFuture();
  if (ran_ || stop_.request || job_ended_ || daemon_.end() ||
      !gave_up_.why.empty())
    return;
  RefreshTokens();
  const auto status = AdminClient(address_).Status(kStatusTimeout);
  if (!status.ok()) {
    failed_hosts_.judge_at = MonotonicNow() + kJudgeAgain;
    return;
  }
  ran_ = HasRun(*status);
  if (ran_) return;
  story_.Say(failed_hosts_.why);
  Stop(kExitRendezvous, failed_hosts_.why, /*now=*/true);
}

}  // namespace rollcall
