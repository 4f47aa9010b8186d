// Supervisor: `rollcall launch` itself, the parent of the daemon, of this
// node's agent and of local workers.
//
// It decides nothing about the run: it starts the children, restarts the daemon
// on its port when it dies, prints which nodes are waited for, and exits with
// the job's exit code. The children are separate processes: if the launcher is
// killed, they go on, and the next launcher with the same state adopts them
// (start_plan.h decides this, launch.cc passes it on).
//
// Thread rule: Run blocks its caller, whose thread becomes the loop.
#ifndef ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_
#define ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/admin/admin_client.h"
#include "client/launch/daemon_child.h"
#include "client/launch/launch.h"
#include "client/launch/launch_wire.h"
#include "client/launch/local_agents.h"
#include "client/launch/run_story.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/status_feed.h"
#include "client/launch/takeover/launch_folder.h"
#include "client/launch/takeover/left_behind.h"
#include "client/launch/takeover/start_plan.h"
#include "daemon/base/processes/signal_pipe.h"
#include "daemon/core/exit_codes.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class Supervisor {
 public:
  Supervisor(LaunchOptions options, std::unique_ptr<LaunchFolder> state,
             LaunchWire wire, StartPlan plan);

  // Runs until the job ends; returns the exit code of `rollcall launch`.
  // `found`: the input from which `plan` was made.
  int Run(Found found);

 private:
  static constexpr absl::Duration kStatusTimeout = absl::Seconds(1);
  // The longest time that a stopped run may take in addition to its ranks'
  // grace.
  static constexpr absl::Duration kStopPatience = absl::Seconds(10);

  // Times of the steps against agents that do not end.
  struct Overdue {
    absl::Time term_at = absl::InfiniteFuture();  // When they get SIGTERM.
    absl::Time kill_at = absl::InfiniteFuture();  // When they get SIGKILL.
    // When the user is told which agents are waited for.
    absl::Time tell_at = absl::InfiniteFuture();
    bool killed = false;
  };

  // The request to stop the job.
  struct Stopping {
    std::optional<v1::StopRequest> request;
    int interrupts = 0;
    absl::Time asked_at = absl::InfiniteFuture();
    // When a failed request is sent again.
    absl::Time again_at = absl::InfiniteFuture();
  };
  // Agents of this machine that have ended. The daemon gets some time to end
  // the job before they count.
  struct EndedAgents {
    absl::Time judge_at = absl::InfiniteFuture();
    // The launcher's own agent has failed. While the daemon does not answer, or
    // the node is suspect, the daemon is asked again until `own_until`.
    bool own_failed = false;
    absl::Time own_until = absl::InfinitePast();
    // Names of adopted agents.
    std::vector<std::string> adopted;
  };
  // Agents on other hosts, or submitted workers, that could not be started.
  struct FailedHosts {
    // Why the run ends if no ranks run.
    std::string why;
    // When the daemon is asked whether ranks run.
    absl::Time judge_at = absl::InfiniteFuture();
  };
  // Why the run cannot continue, and the exit code.
  struct GaveUp {
    std::string why;  // Empty: it can continue.
    int code = kExitRendezvous;
  };

  // --- Until the run is under way (supervisor_start.cc) ---
  // Handles what an earlier launcher has left: adopts it, or ends it if its run
  // is over or never began.
  void TakeBack(Found& found);
  absl::Status StartDaemon();
  // Writes the record before any recorded process may act, so that the next
  // launcher knows all processes.
  void KeepRecord();
  // Also called after a restart of the daemon.
  void DaemonListens();
  // Tells the daemon which agents of earlier launches are gone.
  void GiveUpTheGone();
  void StartAgents();
  // Asks an adopted daemon, because agents of an ended job must not be
  // restarted.
  bool JobHasEnded();
  SpawnOptions AgentSpawn(const NamedAgent& agent) const;
  SpawnOptions RemoteSpawn(const NamedAgent& agent) const;
  void PassBell(SpawnOptions& spawn) const;
  // Starts the process that submits workers.
  void SubmitWorkers(const std::vector<std::string>& endpoints);
  // A token with which each submitted worker may join a few times.
  absl::StatusOr<v1::JoinToken> TokenForWorkers(uint32_t workers) const;

  // --- The loop (supervisor.cc) ---
  void Wait();
  absl::Duration Timeout() const;
  void OnTimers();
  void Reap();
  void TellNews();
  // Why the daemon has died, as a suffix for the message; empty: unknown.
  std::string DaemonsReason() const;
  // `wait_status` nullopt: the daemon was not our child.
  void DaemonDied(std::optional<int> wait_status);
  // Call when the daemon has died or could not be restarted; `how` is the text
  // for the message. `again`: it may be restarted.
  void DaemonFailed(const std::string& how, bool again, bool hopeless);
  void AgentEnded(const LocalAgents::Ended& agent);
  // Names the adopted agents that have ended. Stops the job if the launcher's
  // own agent has failed and no other agent has its node.
  void JudgeEndedAgents();
  // Call when an agent on another host, or the submit command, has ended.
  void HostFailed(const LocalAgents::Ended& agent);
  void JudgeHosts();
  bool Done() const;

  // --- The end (supervisor_end.cc) ---
  void OnSignal(int signal);
  // Asks for the end of the job; repeated automatically after a restart of the
  // daemon.
  void Stop(int exit_code, const std::string& reason, bool now);
  void SendStop();
  // Agents that have not ended are killed at this time, or earlier if that was
  // set before: neither a signal nor a failure puts it off. If one is still
  // waited for after some seconds, the user is told.
  void KillAt(absl::Time at);
  void TellWhoIsWaitedFor(absl::Time now);
  // Reads the stored tokens again, because the daemon may have replaced them.
  void RefreshTokens();
  absl::Duration StopGrace() const;
  // The run cannot continue: all processes that were started here are ended.
  void GiveUp(const std::string& why);
  int Finish();

  const LaunchOptions options_;
  const std::unique_ptr<LaunchFolder> state_;
  const LaunchWire wire_;
  const StartPlan plan_;
  SignalPipe signals_{{SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2,
                       SIGCHLD, SIGWINCH, SIGCONT}};
  RunStory story_;
  StatusFeed feed_;
  JobAddress address_;
  v1::JoinToken worker_token_;
  DaemonChild daemon_;
  LocalAgents agents_;
  bool agents_started_ = false;
  bool record_failed_ = false;
  // The daemon was told of plan_.gone, so other agents may use these names.
  bool gone_told_ = false;
  // The message that the daemon cannot be started; printed once until it
  // listens.
  bool told_unstartable_ = false;
  // The latest state of the job says so; the daemon may still linger.
  bool job_ended_ = false;
  // A world was committed, or may have been committed to agents of an earlier
  // launcher.
  bool ran_ = false;
  std::optional<int> own_exit_;

  Stopping stop_;
  Overdue overdue_;
  EndedAgents ended_agents_;
  FailedHosts failed_hosts_;
  GaveUp gave_up_;
  // The run could not be adopted and is left unchanged.
  bool left_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_
