// Supervisor: the start, until the run is under way.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/launch/supervisor.h"
#include "client/launch/takeover/launch_record.h"
#include "daemon/base/clock.h"
#include "daemon/base/durations.h"
#include "daemon/base/files/await_ready.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {
namespace {

// SIGKILL ends a process sooner than this unless the kernel is stuck. In that
// case the new daemon reports which process holds its state.
constexpr absl::Duration kOldDaemonPatience = absl::Seconds(10);
// A worker's scheduler may start it again, so its token can be used several
// times.
constexpr uint32_t kUsesPerWorker = 4;

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
  wanted.token_ttl = options.token_ttl;
  wanted.wire_flags = wire.DaemonFlags();
  wanted.http = wire.options.http;
  wanted.http_insecure = wire.options.http_insecure;
  if (wire.options.secret) wanted.secret_text = wire.options.secret->Text();
  wanted.environment = options.environment;
  return wanted;
}

}  // namespace

Supervisor::Supervisor(LaunchOptions options,
                       std::unique_ptr<LaunchFolder> state, LaunchWire wire,
                       StartPlan plan)
    : options_(std::move(options)),
      state_(std::move(state)),
      wire_(std::move(wire)),
      plan_(std::move(plan)),
      story_(options_.job, options_.json,
             FromProto(options_.settings.linger())),
      daemon_(ForDaemon(options_, *state_, wire_)) {
  address_.job = options_.job;
  address_.token = wire_.tokens.admin;
  worker_token_ = wire_.tokens.worker;
  address_.trust = wire_.trust;
}

int Supervisor::Run(Found found) {
  TakeBack(found);
  if (plan_.kind == StartPlan::Kind::kAttach) {
    DaemonListens();
  } else if (absl::Status started = StartDaemon(); !started.ok()) {
    story_.Say(started.message());
    return kExitRendezvous;
  }
  while (!Done()) Wait();
  return Finish();
}

void Supervisor::TakeBack(Found& found) {
  for (const std::string& name : plan_.ended) {
    found.agents.at(name).Kill(SIGTERM);
  }
  if (plan_.end_daemon) {
    found.daemon->Kill(SIGKILL);
    // The old daemon holds the journal until its process has ended.
    AwaitReady(found.daemon->fd(), POLLIN, MonotonicNow() + kOldDaemonPatience);
  }
  ran_ = plan_.kind != StartPlan::Kind::kNew;
  if (!ran_) return;
  const bool lives = plan_.kind == StartPlan::Kind::kAttach;
  story_.TakenBack(lives ? found.daemon->pid() : 0, plan_.adopted);
  if (!plan_.gone.empty()) {
    story_.Say(absl::StrCat(
        "the machine or container of the earlier launcher was started again, "
        "so all its processes have ended; the next world does not wait for the "
        "ranks of ",
        absl::StrJoin(plan_.gone, ", ")));
  }
  for (const std::string& name : plan_.adopted) {
    agents_.Adopt(name, name == options_.node,
                  std::move(found.agents.at(name)));
  }
  address_.endpoints = {LocalEndpoint(options_.listen, plan_.port)};
  if (lives) daemon_.Adopt(*std::move(found.daemon), plan_.port);
}

absl::Status Supervisor::StartDaemon() {
  const bool goes_on = plan_.kind == StartPlan::Kind::kResume;
  if (!goes_on) unlink(state_->daemon_log().c_str());
  if (wire_.options.insecure) {
    story_.Say(
        "WARNING: --insecure: every user of this machine can read the "
        "traffic and take part; use it only for tests");
  }
  absl::Status started = goes_on ? daemon_.Resume(plan_.port) : daemon_.Start();
  if (!started.ok()) return started;
  KeepRecord();
  daemon_.Release();
  return absl::OkStatus();
}

void Supervisor::KeepRecord() {
  LaunchRecord record;
  record.terms = plan_.terms;
  record.ephemeral = options_.ephemeral;
  record.port = daemon_.port();
  record.place = ThisPlace(*state_);
  if (plan_.others_may_live) record.place.process_one = false;
  record.daemon = daemon_.id();
  record.agents = agents_.Records();
  if (!gone_told_) record.gone = plan_.gone;
  const absl::Status wrote = WriteLaunchRecord(state_->path(), record);
  if (!wrote.ok() && !record_failed_) {
    story_.Say(absl::StrCat(wrote.message(),
                            "; if this launcher dies, no other can take its "
                            "place"));
  }
  record_failed_ = !wrote.ok();
}

void Supervisor::DaemonListens() {
  if (std::exchange(told_unstartable_, false)) {
    story_.Say("the daemon listens again; the run goes on");
  }
  const std::string endpoint = LocalEndpoint(options_.listen, daemon_.port());
  address_.endpoints = {endpoint};
  RefreshTokens();
  const std::string join_string =
      wire_.JoinString(wire_.Endpoints(options_.listen, daemon_.port()),
                       options_.job, worker_token_);
  const absl::Status wrote =
      state_->WriteRunning({options_.job, endpoint, join_string,
                            static_cast<int>(daemon_.pid()), wire_.trust});
  if (!wrote.ok()) story_.Say(wrote.message());
  const bool first = !agents_started_;
  agents_started_ = true;
  if (first) GiveUpTheGone();
  if (first && !stop_.request && !JobHasEnded()) StartAgents();
  KeepRecord();
  agents_.Release();
  if (first) {
    const v1::JobSettings& settings = options_.settings;
    const uint64_t most = options_.join_line ? settings.nodes_max() : 0;
    // A token that is derived from a shared secret does not expire.
    const absl::Duration lifetime =
        wire_.options.secret ? absl::InfiniteDuration() : options_.token_ttl;
    story_.Joinable(endpoint, join_string, state_->path() + kWorkerJoinFile,
                    lifetime, {agents_.size(), settings.nodes_min(), most, {}});
  }
  feed_.Begin(endpoint, address_);
  if (stop_.request) SendStop();
}

// New agents attend under the names of nodes whose agents are gone.
void Supervisor::GiveUpTheGone() {
  for (const std::string& name : plan_.gone) {
    v1::EvictRequest request;
    request.set_job(options_.job);
    request.set_node(name);
    request.set_reason("its machine or container was started again");
    // An agent that was never admitted need not be evicted.
    const auto evicted = AdminClient(address_).Evict(request, kStatusTimeout);
    if (evicted.ok() || absl::IsNotFound(evicted.status())) continue;
    story_.Say(absl::StrCat("cannot tell the daemon that the former agent of ",
                            name,
                            " has ended, so the next world may wait for it: ",
                            evicted.status().message()));
  }
  gone_told_ = true;
}

void Supervisor::StartAgents() {
  const std::vector<std::string> for_others =
      wire_.Endpoints(options_.listen, daemon_.port());
  for (const NamedAgent& agent : plan_.started) {
    const bool here = agent.target.empty();
    const std::string join_string =
        wire_.JoinString(here ? address_.endpoints : for_others, options_.job,
                         agent.own ? address_.token : worker_token_);
    const absl::Status started = agents_.Start(
        agent.name, agent.own, here ? AgentSpawn(agent) : RemoteSpawn(agent),
        join_string);
    if (started.ok()) continue;
    story_.Say(started.message());
    if (!agent.own) continue;
    own_exit_ = kExitRendezvous;
    ended_agents_.own_failed = true;
    ended_agents_.judge_at = MonotonicNow();
  }
  if (plan_.submits) SubmitWorkers(for_others);
}

void Supervisor::SubmitWorkers(const std::vector<std::string>& endpoints) {
  const v1::JobSettings& settings = options_.settings;
  const uint32_t workers = settings.nodes_max() - 1;
  const auto token = TokenForWorkers(workers);
  const auto master = ParseHostPort(endpoints.front());
  if (!token.ok() || !master.ok()) {
    story_.Say(absl::StrCat(
        "cannot submit workers: ",
        token.ok() ? master.status().message() : token.status().message()));
    return;
  }
  SpawnOptions spawn;
  spawn.arguments = {"submit",
                     "--template",
                     options_.submit.file,
                     "--command",
                     options_.submit.command,
                     "--workers",
                     absl::StrCat(workers),
                     "--workers-min",
                     absl::StrCat(settings.nodes_min() - 1),
                     "--value",
                     absl::StrCat("MASTER_ADDR=", master->host)};
  for (const auto& [name, value] : options_.submit.values) {
    spawn.arguments.insert(spawn.arguments.end(),
                           {"--value", absl::StrCat(name, "=", value)});
  }
  spawn.environment = options_.environment;
  const absl::Status started =
      agents_.Start(kSubmitName, false, std::move(spawn),
                    wire_.JoinString(endpoints, options_.job, *token));
  if (!started.ok()) story_.Say(started.message());
}

absl::StatusOr<v1::JoinToken> Supervisor::TokenForWorkers(
    uint32_t workers) const {
  // With a shared secret, every worker derives the same token from it.
  if (wire_.options.secret) return worker_token_;
  v1::CreateTokenRequest request;
  request.set_job(options_.job);
  request.set_role(v1::ROLE_WORKER);
  request.set_uses(kUsesPerWorker * workers);
  request.set_description("submitted workers");
  if (options_.token_ttl != absl::InfiniteDuration()) {
    ToProto(options_.token_ttl, request.mutable_lifetime());
  }
  auto made = AdminClient(address_).CreateToken(request, kStatusTimeout);
  if (!made.ok()) return made.status();
  return made->token();
}

bool Supervisor::JobHasEnded() {
  if (plan_.kind == StartPlan::Kind::kNew || plan_.started.empty()) {
    return false;
  }
  const auto status = AdminClient(address_).Status(kStatusTimeout);
  return status.ok() && status->has_exit_code();
}

SpawnOptions Supervisor::AgentSpawn(const NamedAgent& agent) const {
  SpawnOptions spawn;
  spawn.arguments = {"agent", "--name", agent.name};
  const auto add = [&spawn](const std::vector<std::string>& words) {
    spawn.arguments.insert(spawn.arguments.end(), words.begin(), words.end());
  };
  if (agent.own) add({"--launcher"});
  // The bell's file descriptor exists on this host only.
  if (agent.target.empty()) PassBell(spawn);
  if (!agent.target.empty()) add({"--remote"});
  std::vector<std::string> flags = options_.agent_flags;
  const auto ranks = std::find(flags.begin(), flags.end(), "--nproc-per-node");
  if (agent.slots != 0 && ranks != flags.end()) {
    *(ranks + 1) = absl::StrCat(agent.slots);
  }
  add(flags);
  add(wire_.AgentFlags());
  add({"--"});
  add(options_.command);
  spawn.environment = options_.environment;
  return spawn;
}

// The started process writes its output above the launcher's live line.
void Supervisor::PassBell(SpawnOptions& spawn) const {
  if (story_.bell() < 0) return;
  spawn.arguments.insert(spawn.arguments.begin() + 1,
                         {"--live-fd", absl::StrCat(story_.bell())});
  spawn.inherited_fds.push_back(story_.bell());
}

// The process that runs ssh; its own arguments hold no secret.
SpawnOptions Supervisor::RemoteSpawn(const NamedAgent& agent) const {
  const SpawnOptions there = AgentSpawn(agent);
  SpawnOptions spawn;
  spawn.arguments = {"remote",     "--name", agent.name,          "--target",
                     agent.target, "--ssh",  options_.ssh.command};
  const auto add = [&spawn](const std::vector<std::string>& words) {
    spawn.arguments.insert(spawn.arguments.end(), words.begin(), words.end());
  };
  PassBell(spawn);
  if (options_.ssh.push) add({"--push"});
  for (const std::string& name : options_.ssh.exported) {
    add({"--export", name});
  }
  add({"--"});
  add(there.arguments);
  spawn.environment = options_.environment;
  return spawn;
}

}  // namespace rollcall
