// Supervisor: `rollcall launch` itself, the parent of the daemon, of this
// node's agent and of local workers.
//
// It decides nothing about the run: it starts the children, restarts the daemon
// on its port when that dies, tells people what is waited for, and ends with
// the job's exit code. The children are processes of their own: a sudden death
// of the launcher ends nothing, and one that is started again on the same state
// takes them back (start_plan.h decides, launch.cc carries that here).
//
// Thread rule: Run blocks its caller, whose thread becomes the loop.
#ifndef ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_
#define ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/admin/admin_client.h"
#include "client/launch/daemon_child.h"
#include "client/launch/launch.h"
#include "client/launch/launch_folder.h"
#include "client/launch/launch_wire.h"
#include "client/launch/left_behind.h"
#include "client/launch/local_agents.h"
#include "client/launch/run_story.h"
#include "client/launch/spawn.h"
#include "client/launch/start_plan.h"
#include "client/launch/status_feed.h"
#include "daemon/base/signal_pipe.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class Supervisor {
 public:
  Supervisor(LaunchOptions options, std::unique_ptr<LaunchFolder> state,
             LaunchWire wire, StartPlan plan);

  // To the job's end; the exit code of `rollcall launch`. `found`: what `plan`
  // was made of.
  int Run(Found found);

 private:
  // The longest that a stopped run may take beyond what its ranks are given.
  static constexpr absl::Duration kStopPatience = absl::Seconds(10);

  // --- Until the run is under way (supervisor_start.cc) ---
  // What an earlier launcher has left: taken over, or ended where its run is
  // over or never began.
  void TakeBack(Found& found);
  absl::Status StartDaemon();
  // Before anybody who is in it may do anything, so that no launcher ever finds
  // processes that it knows nothing of.
  void KeepRecord();
  // Also when a daemon was started again.
  void DaemonListens();
  // Tells the daemon which agents of earlier launches are gone.
  void GiveUpTheGone();
  void StartAgents();
  // Asked of a daemon that was there before us: its agents are not to begin
  // again.
  bool JobHasEnded();
  SpawnOptions AgentSpawn(const NamedAgent& agent) const;

  // --- The loop (supervisor.cc) ---
  void Wait();
  absl::Duration Timeout() const;
  void OnTimers();
  void Reap();
  void TellNews();
  // Why the daemon has died, to be put behind how; empty: not known.
  std::string DaemonsReason() const;
  // Nothing: it was not our child.
  void DaemonDied(std::optional<int> wait_status);
  // It has died or could not be started again; `how` says which.
  void DaemonFailed(const std::string& how, bool again, bool hopeless);
  void AgentEnded(const LocalAgents::Ended& agent);
  bool Done() const;

  // --- The end (supervisor_end.cc) ---
  void OnSignal(int signal);
  // Asks for the end of the job; again by itself after a daemon's restart.
  void Stop(int exit_code, const std::string& reason, bool now);
  void SendStop();
  // When agents that have not ended are killed; some seconds from now people
  // are told, if one is still waited for.
  void KillAt(absl::Time at);
  void TellWhoIsWaitedFor(absl::Time now);
  // Reads the kept tokens again: the daemon may have replaced them.
  void RefreshTokens();
  absl::Duration StopGrace() const;
  // The run cannot go on: everything that was started here is ended.
  void GiveUp(const std::string& why);
  int Finish();

  const LaunchOptions options_;
  const std::unique_ptr<LaunchFolder> state_;
  const LaunchWire wire_;
  const StartPlan plan_;
  SignalPipe signals_{{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}};
  RunStory story_;
  StatusFeed feed_;
  JobAddress address_;
  v1::JoinToken worker_token_;
  DaemonChild daemon_;
  LocalAgents agents_;
  bool agents_started_ = false;
  bool record_failed_ = false;
  // From then on the names of those that are gone may be other agents'.
  bool gone_told_ = false;
  // That the daemon cannot be started for now; said once until it listens.
  bool told_unstartable_ = false;
  // By its latest state; the daemon may stay for a while.
  bool job_ended_ = false;
  // A world has been proposed, or may have been to an earlier launcher's
  // agents.
  bool ran_ = false;
  std::optional<int> own_exit_;

  std::optional<v1::StopRequest> stop_;
  int interrupts_ = 0;
  // When a stop that failed is sent again.
  absl::Time stop_again_at_ = absl::InfiniteFuture();
  // When agents that have not ended by themselves are told to, and killed.
  absl::Time term_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
  // When people are told which agents are waited for.
  absl::Time tell_at_ = absl::InfiniteFuture();
  // Agents that had not ended were killed.
  bool killed_ = false;
  // When the job is stopped because its own agent has failed.
  absl::Time agent_failed_at_ = absl::InfiniteFuture();
  std::string gave_up_;
  // What goes on could not be taken up and stays as it was found.
  bool left_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_
