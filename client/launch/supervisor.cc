#include "client/launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/agent/signal_pipe.h"
#include "client/launch/admin_client.h"
#include "client/launch/daemon_child.h"
#include "client/launch/job_text.h"
#include "client/launch/launch_folder.h"
#include "client/launch/launch_wire.h"
#include "client/launch/live_line.h"
#include "client/launch/spawn.h"
#include "daemon/core/exit_codes.h"
#include "daemon/security/identity.h"
#include "daemon/security/token.h"
#include "daemon/server/clock.h"
#include "daemon/server/mutex.h"

namespace rollcall {
namespace {

constexpr absl::Duration kStopTimeout = absl::Seconds(1);
// After an order to end at once: how long hosts files may take.
constexpr absl::Duration kKillPatience = absl::Seconds(5);
// After the daemon has ended with the job: an agent that could not be told of
// it by then redials a daemon that is gone.
constexpr absl::Duration kEndPatience = absl::Seconds(3);
// An order to stop that did not get through is given again.
constexpr absl::Duration kStopAgain = absl::Seconds(1);
// The longest that a stopped run may take beyond its ranks' stop_grace.
constexpr absl::Duration kStopPatience = absl::Seconds(10);
// An own agent that failed while the job goes on ends it; so long the daemon
// may take to see the end by itself.
constexpr absl::Duration kAgentPatience = absl::Seconds(2);
// From when on stragglers are named.
constexpr absl::Duration kStragglersAfter = absl::Minutes(1);

// The latest state that the watch has brought, handed to the loop.
class Latest {
 public:
  Latest() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Latest() { close(fd_); }

  void Put(v1::JobStatus status) {
    {
      MutexLock lock(mutex_);
      status_ = std::move(status);
    }
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t wrote = write(fd_, &one, sizeof(one));
  }

  std::optional<v1::JobStatus> Take() {
    uint64_t count = 0;
    [[maybe_unused]] ssize_t got = read(fd_, &count, sizeof(count));
    MutexLock lock(mutex_);
    return std::exchange(status_, std::nullopt);
  }

  int fd() const { return fd_; }

 private:
  const int fd_;
  Mutex mutex_;
  std::optional<v1::JobStatus> status_ ABSL_GUARDED_BY(mutex_);
};

class Supervisor {
 public:
  Supervisor(LaunchOptions options, std::unique_ptr<LaunchFolder> state,
             LaunchWire wire);
  int Run();

 private:
  struct AgentChild {
    std::string name;
    bool own = false;
  };

  absl::Status StartDaemon();
  void DaemonListens();
  void TellHowToJoin(const std::string& endpoint,
                     const std::string& join_string);
  void StartAgents();
  void StartAgent(const std::string& name, bool own);

  void Wait();
  absl::Duration Timeout() const;
  void OnSignal(int signal);
  void OnTimers();
  void Reap();
  void DaemonDied(int wait_status);
  void AgentEnded(const AgentChild& agent, int wait_status);
  bool Done() const;

  void OnStatus(v1::JobStatus status);
  void ShowWaiting();

  // Asks for the end of the job; again by itself after a daemon's restart.
  void Stop(int exit_code, const std::string& reason, bool now);
  void SendStop();
  // Takes the admin token anew, which may have been rotated since.
  void RefreshToken();
  void KillAgents(int signal);
  void GiveUp(const std::string& why);
  int Finish();

  const LaunchOptions options_;
  const std::unique_ptr<LaunchFolder> state_;
  const LaunchWire wire_;
  SignalPipe signals_{{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}};
  LiveLine line_{LiveLine::OnTerminal()};
  JobAddress address_;
  DaemonChild daemon_;
  std::map<pid_t, AgentChild> agents_;
  bool agents_started_ = false;
  std::optional<int> own_exit_;

  Latest latest_;
  std::unique_ptr<JobWatch> watch_;
  std::optional<v1::JobStatus> status_;
  absl::Time status_at_ = absl::InfinitePast();
  absl::Time stragglers_since_ = absl::InfiniteFuture();
  uint64_t told_generation_ = 1;

  std::optional<v1::StopRequest> stop_;
  int interrupts_ = 0;
  // When a stop that failed is sent again.
  absl::Time stop_again_at_ = absl::InfiniteFuture();
  // When agents that have not ended by themselves are told to, and killed.
  absl::Time term_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
  // When the job is stopped because its own agent has failed.
  absl::Time agent_failed_at_ = absl::InfiniteFuture();
  std::string gave_up_;
};

DaemonChildOptions ForDaemon(const LaunchOptions& options,
                             const LaunchFolder& state,
                             const LaunchWire& wire) {
  DaemonChildOptions wanted;
  wanted.job = options.job;
  wanted.settings = options.settings;
  wanted.listen = options.listen;
  wanted.state_dir = state.path();
  wanted.log_file = state.daemon_log();
  wanted.ephemeral = options.ephemeral;
  wanted.wire_flags = wire.DaemonFlags();
  if (wire.options.secret) wanted.secret_text = wire.options.secret->Text();
  wanted.environment = options.environment;
  return wanted;
}

Supervisor::Supervisor(LaunchOptions options,
                       std::unique_ptr<LaunchFolder> state, LaunchWire wire)
    : options_(std::move(options)),
      state_(std::move(state)),
      wire_(std::move(wire)),
      daemon_(ForDaemon(options_, *state_, wire_)) {
  address_.job = options_.job;
  address_.token = wire_.tokens.admin;
  address_.trust = wire_.trust;
}

int Supervisor::Run() {
  absl::Status started = StartDaemon();
  if (!started.ok()) {
    line_.Print(started.message());
    return kExitRendezvous;
  }
  while (!Done()) Wait();
  return Finish();
}

// --- Starting ---------------------------------------------------------------

absl::Status Supervisor::StartDaemon() {
  unlink(state_->daemon_log().c_str());
  if (wire_.options.insecure) {
    line_.Print(
        "WARNING: --insecure: everybody on this machine can read along and "
        "take part; for trying things out only");
  }
  return daemon_.Start();
}

void Supervisor::DaemonListens() {
  const std::string endpoint = LocalEndpoint(options_.listen, daemon_.port());
  address_.endpoints = {endpoint};
  const std::string join_string =
      wire_.JoinString(wire_.Endpoints(options_.listen, daemon_.port()),
                       options_.job, wire_.tokens.worker);
  const absl::Status wrote =
      state_->WriteRunning({options_.job, endpoint, join_string,
                            static_cast<int>(daemon_.pid()), wire_.trust});
  if (!wrote.ok()) line_.Print(wrote.message());
  if (!agents_started_) {
    agents_started_ = true;
    StartAgents();
    TellHowToJoin(endpoint, join_string);
  }
  RefreshToken();
  watch_ = nullptr;
  watch_ = std::make_unique<JobWatch>(
      endpoint, address_,
      [this](v1::JobStatus status) { latest_.Put(std::move(status)); },
      // A daemon that dies is seen by its pid, and the watch begins anew.
      [](absl::Status) {});
  if (stop_) SendStop();
}

void Supervisor::TellHowToJoin(const std::string& endpoint,
                               const std::string& join_string) {
  if (options_.json) {
    const nlohmann::ordered_json event = {{"event", "joinable"},
                                          {"job", options_.job},
                                          {"endpoint", endpoint},
                                          {"join", join_string}};
    std::printf("%s\n", OneLine(event).c_str());
    std::fflush(stdout);
  } else if (options_.settings.nodes_max() > agents_.size()) {
    line_.Print(absl::StrCat("job ", options_.job, " waits for ",
                             options_.settings.nodes_max() - agents_.size(),
                             " more; on each of them:\n\n  rollcall join ",
                             join_string, " -- CMD...\n"));
  }
}

void Supervisor::StartAgents() {
  if (!options_.node.empty()) StartAgent(options_.node, true);
  for (uint32_t i = 1; i <= options_.local_workers; ++i) {
    StartAgent(LocalWorkerName(i), false);
  }
}

void Supervisor::StartAgent(const std::string& name, bool own) {
  SpawnOptions spawn;
  spawn.arguments = {"agent", "--name", name};
  if (own) spawn.arguments.push_back("--launcher");
  spawn.arguments.insert(spawn.arguments.end(), options_.agent_flags.begin(),
                         options_.agent_flags.end());
  const std::vector<std::string> wire = wire_.AgentFlags();
  spawn.arguments.insert(spawn.arguments.end(), wire.begin(), wire.end());
  spawn.arguments.push_back("--");
  spawn.arguments.insert(spawn.arguments.end(), options_.command.begin(),
                         options_.command.end());
  spawn.environment = options_.environment;
  spawn.environment.push_back(absl::StrCat(
      "ROLLCALL_JOIN=",
      wire_.JoinString(address_.endpoints, options_.job,
                       own ? wire_.tokens.admin : wire_.tokens.worker)));
  auto pid = SpawnSelf(spawn);
  if (!pid.ok()) {
    line_.Print(pid.status().message());
    if (own) own_exit_ = kExitRendezvous;
    if (own) agent_failed_at_ = MonotonicNow();
    return;
  }
  agents_[*pid] = {name, own};
}

// --- The loop ---------------------------------------------------------------

bool Supervisor::Done() const {
  return agents_.empty() && daemon_.pid() < 0 &&
         daemon_.restart_at() == absl::InfiniteFuture();
}

absl::Duration Supervisor::Timeout() const {
  absl::Time until = std::min({daemon_.restart_at(), stop_again_at_, term_at_,
                               kill_at_, agent_failed_at_});
  const absl::Time now = MonotonicNow();
  if (status_ && status_->state() == v1::JOB_STATE_GATHERING) {
    until = std::min(until, now + absl::Seconds(1));  // The shown seconds.
  }
  if (stragglers_since_ != absl::InfiniteFuture()) {
    const absl::Time named = stragglers_since_ + kStragglersAfter;
    until = std::min(until, std::max(named, now + absl::Seconds(1)));
  }
  return std::clamp(until - now, absl::ZeroDuration(), absl::Minutes(1));
}

void Supervisor::Wait() {
  pollfd fds[3] = {{signals_.fd(), POLLIN, 0},
                   {latest_.fd(), POLLIN, 0},
                   {daemon_.fd(), POLLIN, 0}};
  const absl::Duration timeout = Timeout();
  poll(fds, 3,
       static_cast<int>(
           absl::ToInt64Milliseconds(timeout + absl::Microseconds(999))));
  if (auto status = latest_.Take()) OnStatus(*std::move(status));
  if (daemon_.fd() >= 0 && daemon_.Read()) DaemonListens();
  bool child = false;
  while (const int signal = signals_.Read()) {
    child = child || signal == SIGCHLD;
    if (signal != SIGCHLD) OnSignal(signal);
  }
  if (child) Reap();
  OnTimers();
}

void Supervisor::OnTimers() {
  const absl::Time now = MonotonicNow();
  if (now >= daemon_.restart_at()) {
    if (absl::Status restarted = daemon_.Restart(); !restarted.ok()) {
      GiveUp(std::string(restarted.message()));
    }
  }
  if (now >= agent_failed_at_) {
    agent_failed_at_ = absl::InfiniteFuture();
    if (!daemon_.end()) {
      Stop(own_exit_.value_or(kExitRendezvous),
           absl::StrCat("the launcher's own agent ", options_.node,
                        " has failed"),
           false);
    }
  }
  if (now >= stop_again_at_) SendStop();
  if (now >= term_at_) {
    term_at_ = absl::InfiniteFuture();
    KillAgents(SIGTERM);
  }
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    KillAgents(SIGKILL);
    if (daemon_.pid() > 0) kill(daemon_.pid(), SIGTERM);
  }
  ShowWaiting();
}

void Supervisor::Reap() {
  int status = 0;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == daemon_.pid()) {
      DaemonDied(status);
      continue;
    }
    auto found = agents_.find(pid);
    if (found == agents_.end()) continue;
    const AgentChild agent = found->second;
    agents_.erase(found);
    AgentEnded(agent, status);
  }
}

void Supervisor::DaemonDied(int wait_status) {
  const bool listened = daemon_.port() != 0;
  const bool fine = daemon_.Died(MonotonicNow());
  if (daemon_.end()) {
    // Agents that know of the end may still give their ranks their grace.
    const absl::Duration grace =
        absl::Seconds(options_.settings.stop_grace().seconds());
    term_at_ = MonotonicNow() + grace + kEndPatience;
    kill_at_ = std::min(kill_at_, term_at_ + kStopPatience);
    return;
  }
  if (!gave_up_.empty()) return;
  watch_ = nullptr;
  const std::string words = LastLines(state_->daemon_log(), 5);
  const std::string how =
      absl::StrCat("the daemon ", DescribeExit(wait_status));
  if (!fine || interrupts_ > 1 || (stop_ && agents_.empty())) {
    if (stop_) {
      return GiveUp(absl::StrCat("the run was stopped; ", how,
                                 " before it could say how the run ended"));
    }
    GiveUp(absl::StrCat(
        how, listened ? ", too often to start it again" : " at its start",
        words.empty() ? "" : absl::StrCat("; its last words:\n", words)));
    return;
  }
  line_.Print(absl::StrCat(how, "; it is started again, ranks run on"));
}

void Supervisor::AgentEnded(const AgentChild& agent, int wait_status) {
  if (agent.own) own_exit_ = ExitCodeOf(wait_status);
  if (WIFSIGNALED(wait_status)) {
    if (!stop_) {
      line_.Print(absl::StrCat("the agent of ", agent.name, " ",
                               DescribeExit(wait_status)));
    }
    return;
  }
  // The daemon knows by now how the job ended, or it never will.
  if (agent.own && *own_exit_ != 0 && !daemon_.end()) {
    agent_failed_at_ = MonotonicNow() + kAgentPatience;
  }
}

// --- Ending -----------------------------------------------------------------

void Supervisor::OnSignal(int signal) {
  if (signal == SIGUSR2) return KillAgents(signal);  // They pass it on.
  ++interrupts_;
  const bool again = interrupts_ > 1;
  int code = 128 + signal;
  // What a scheduler sends before it takes the machine back.
  if (signal == SIGUSR1 || signal == SIGTERM) {
    code = options_.settings.requeue_exit_code();
  }
  if (!again) {
    line_.Print(signal == SIGINT
                    ? "stopping the run; once more ends it at once"
                    : absl::StrCat("stopping the run (signal ", signal, ")"));
  }
  Stop(stop_ ? stop_->exit_code() : code,
       signal == SIGINT
           ? "stopped by Ctrl-C"
           : absl::StrCat("stopped by signal ", signal, " to the launcher"),
       again);
}

void Supervisor::Stop(int exit_code, const std::string& reason, bool now) {
  stop_.emplace();
  stop_->set_exit_code(exit_code);
  stop_->set_reason(reason);
  stop_->set_now(now);
  const absl::Duration grace =
      absl::Seconds(options_.settings.stop_grace().seconds());
  kill_at_ = MonotonicNow() + (now ? kKillPatience : grace + kStopPatience);
  SendStop();
}

void Supervisor::RefreshToken() {
  const auto text = ReadSecretFile(state_->path() + kAdminTokenFile);
  if (!text.ok()) return;
  auto token = ParseTokenText(*text);
  if (token.ok()) address_.token = *std::move(token);
}

void Supervisor::SendStop() {
  RefreshToken();
  if (address_.endpoints.empty()) {  // Nothing runs yet.
    GiveUp("stopped before the daemon listened");
    return;
  }
  auto stopped = AdminClient(address_).Stop(*stop_, kStopTimeout);
  stop_again_at_ = stopped.ok() || daemon_.pid() < 0
                       ? absl::InfiniteFuture()
                       : MonotonicNow() + kStopAgain;
  // Who cannot steer the daemon any more can still ask the agents.
  const bool refused = absl::IsUnauthenticated(stopped.status()) ||
                       absl::IsPermissionDenied(stopped.status());
  if (!stopped.ok() && (interrupts_ > 1 || refused)) KillAgents(SIGTERM);
}

void Supervisor::KillAgents(int signal) {
  for (const auto& [pid, agent] : agents_) kill(pid, signal);
}

// The run cannot go on: everything that was started here is ended.
void Supervisor::GiveUp(const std::string& why) {
  if (gave_up_.empty()) gave_up_ = why;
  daemon_.CancelRestart();
  stop_again_at_ = absl::InfiniteFuture();
  KillAgents(SIGTERM);
  if (daemon_.pid() > 0) kill(daemon_.pid(), SIGTERM);
  kill_at_ = MonotonicNow() +
             absl::Seconds(options_.settings.stop_grace().seconds()) +
             kKillPatience;
}

int Supervisor::Finish() {
  watch_ = nullptr;
  line_.Clear();
  const std::optional<v1::End>& end = daemon_.end();
  int code = own_exit_.value_or(kExitRendezvous);
  if (!gave_up_.empty()) code = kExitRendezvous;
  if (stop_) code = stop_->exit_code();
  if (end) code = end->exit_code();
  if (!end && code == 0) code = kExitRendezvous;
  if (options_.json) {
    nlohmann::ordered_json last = StatusJson(status_.value_or(v1::JobStatus()));
    last["state"] = end && end->finished() ? "finished" : "failed";
    last["exit_code"] = code;
    last["code"] = end ? Word(end->code()) : "daemon_lost";
    last["reason"] = end ? end->reason() : gave_up_;
    std::printf("%s\n", OneLine(last).c_str());
    std::fflush(stdout);
  }
  if (end && !end->finished()) {
    line_.Print(FailureText(*end));
  } else if (!end) {
    line_.Print(gave_up_.empty() ? "the daemon ended without a word"
                                 : gave_up_);
  }
  ForgetRun(state_->path(), options_.ephemeral && end.has_value());
  return code;
}

// --- Telling ----------------------------------------------------------------

void Supervisor::OnStatus(v1::JobStatus status) {
  status_ = std::move(status);
  status_at_ = MonotonicNow();
  if (options_.json) {
    std::printf("%s\n", OneLine(StatusJson(*status_)).c_str());
    std::fflush(stdout);
  }
  if (status_->state() != v1::JOB_STATE_RUNNING) return;
  line_.Clear();
  const uint64_t generation = status_->last_reform().generation();
  if (generation > told_generation_) {
    told_generation_ = generation;
    if (!options_.json) line_.Print(ReformText(*status_));
  }
  const bool waiting = !StragglersText(*status_).empty();
  if (!waiting) stragglers_since_ = absl::InfiniteFuture();
  if (waiting && stragglers_since_ == absl::InfiniteFuture()) {
    stragglers_since_ = status_at_;
  }
}

void Supervisor::ShowWaiting() {
  if (!status_ || options_.json || stop_ || daemon_.end()) return;
  const absl::Time now = MonotonicNow();
  if (status_->state() == v1::JOB_STATE_GATHERING) {
    // Nobody wants to read of what takes a moment.
    const absl::Duration waited =
        absl::Seconds(status_->waited().seconds()) + (now - status_at_);
    if (waited < absl::Seconds(1)) return;
    line_.Show(WaitingText(*status_),
               absl::StrCat(" (", ShortDuration(waited), ")"));
  } else if (now - stragglers_since_ >= kStragglersAfter) {
    line_.Show(StragglersText(*status_),
               absl::StrCat(" (", ShortDuration(now - stragglers_since_), ")"));
  }
}

}  // namespace

std::string LocalWorkerName(uint32_t index) {
  return absl::StrCat("local-", index);
}

int RunLaunch(LaunchOptions options) {
  auto state = LaunchFolder::Open(options.state_dir);
  if (!state.ok()) {
    LiveLine(false).Print(state.status().message());
    return kExitRendezvous;
  }
  auto wire = LaunchWire::Make((*state)->path(), options.wire);
  if (!wire.ok()) {
    LiveLine(false).Print(wire.status().message());
    return kExitRendezvous;
  }
  return Supervisor(std::move(options), *std::move(state), *std::move(wire))
      .Run();
}

}  // namespace rollcall
