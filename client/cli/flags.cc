#include "client/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/flags_text.h"
#include "daemon/base/durations.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/token.h"

namespace rollcall {
namespace {

// Folders that one `rollcall doctor` checks.
constexpr size_t kFoldersMax = 64;
// Folders named with --folder. Together with those found without a flag they
// stay within FactsLimits::folders_max.
constexpr size_t kRunFoldersMax = 8;
static_assert(kRunFoldersMax + 4 <= FactsLimits::folders_max);

// Settings as typed; converted to JobSettings after parsing.
struct SettingsText {
  std::string nodes;
  std::string grow;
  std::string preflight;
  std::string join_timeout;
  std::string hang_timeout;
  std::string start_timeout;
  std::string notice_time;
  std::string ping_interval;
  std::string linger;
  uint32_t max_restarts = 0;
  CLI::Option* max_restarts_option = nullptr;
  int requeue_exit_code = 0;
  CLI::Option* requeue_option = nullptr;
};

// Everything that the parser writes to; it must not move.
struct Target {
  LaunchFlags launch;
  SettingsText launch_settings;
  // As typed, for the command that runs ranks.
  std::string preempt_signal;
  JoinFlags join;
  SettingsText join_settings;
  JoinFlags agent;
  SettingsText agent_settings;
  StatusFlags status;
  StopFlags stop;
  DrainFlags drain;
  std::string drain_deadline;  // As typed.
  EvictFlags evict;
  DoctorFlags doctor;
  TokenFlags token;
  // As typed.
  std::string role = "worker";
  std::string ttl;
  // As typed, for launch or the hidden command daemon.
  std::string token_ttl;
  DaemonFlags daemon;
  VersionFlags version;
};

void AddLocal(CLI::App& app, LocalFlags& to, std::string& preempt_signal) {
  app.add_option("--name", to.name, "this node's name (default: its hostname)")
      ->type_name("NODE");
  app.add_option("--nproc-per-node", to.nproc_per_node,
                 "ranks on this node; auto: one per GPU, else 1 (default 1)")
      ->type_name("N|auto");
  app.add_option("--rank-user", to.rank_user,
                 "run CMD as this user instead of root: NAME, UID or UID:GID")
      ->type_name("USER");
  app.add_option("--log-dir", to.log_dir,
                 "also write each rank's output below this folder")
      ->type_name("DIR");
  app.add_option("--folder", to.folders,
                 "a folder that CMD writes to, for example for checkpoints: "
                 "its free space\nis checked; may be given several times")
      ->type_name("DIR");
  auto* file = app.add_option("--hosts-file", to.hosts_file,
                              "hosts file to manage (default /etc/hosts)")
                   ->type_name("PATH");
  auto* none =
      app.add_flag("--no-hosts", to.no_hosts, "leave all hosts files alone")
          ->excludes(file);
  app.add_option_function<std::string>(
         "--hosts-names",
         [&to](const std::string& names) {
           to.hosts_names = absl::StrSplit(names, ',', absl::SkipEmpty());
         },
         "node names that are written to the hosts file even if they have "
         "a\ndot or mean another address here")
      ->type_name("NAME,NAME...")
      ->excludes(none);
  app.add_flag("--once", to.once,
               "run CMD on node rank 0 only, once (mpirun, DeepSpeed)");
  app.add_flag("--json", to.json,
               "one JSON object per line on stdout; rank output on stderr");
  app.add_option("--nccl-env", to.nccl_env,
                 "network settings that CMD gets: all, needed (what NCCL would "
                 "get wrong;\ndefault) or none")
      ->type_name("WHICH");
  app.add_option("--nccl-lib", to.nccl_lib,
                 "libnccl.so.2 to mint NCCL ids with (default: what CMD would "
                 "find)")
      ->type_name("PATH");
  app.add_option("--sysroot", to.sysroot, "")->group("");
  app.add_option("--verbs-lib", to.verbs_lib, "")->group("");
  app.add_option("--nvml-lib", to.nvml_lib, "")->group("");
  app.add_option("--preempt-signal", preempt_signal,
                 "the signal that asks every rank to save and stop (default "
                 "SIGTERM)")
      ->type_name("SIGNAL");
}

void AddSettings(CLI::App& app, SettingsText& to) {
  app.add_option("--nodes,--nnodes", to.nodes,
                 "number of nodes: exact, or minimum and maximum")
      ->type_name("N|MIN:MAX");
  to.max_restarts_option =
      app.add_option(
             "--max-restarts", to.max_restarts,
             "how many failures of ranks may cause a restart (default 3)")
          ->type_name("N");
  app.add_option("--grow", to.grow,
                 "when new nodes join a running world: boundary (default) or "
                 "never")
      ->type_name("WHEN");
  app.add_option("--preflight", to.preflight,
                 "nodes that differ (NCCL, GPUs, RDMA ports, MTU, driver, "
                 "limits,\ncommand): off, warn (default) or strict (they get "
                 "no seat)")
      ->type_name("HOW");
  app.add_option("--join-timeout", to.join_timeout,
                 "how long to wait for missing nodes (default 10m)")
      ->type_name("TIME");
  app.add_option("--hang-timeout", to.hang_timeout,
                 "a rank without progress for this long counts as hung, and "
                 "the next\nworld is formed (default 10m; 0 or never: off)")
      ->type_name("TIME");
  app.add_option("--start-timeout", to.start_timeout,
                 "a rank that has not linked or published a step this long "
                 "after its\nstart counts as hung too, if most nodes' ranks "
                 "have (default 10m;\n0, never or --hang-timeout 0: off)")
      ->type_name("TIME");
  app.add_option("--notice-time", to.notice_time,
                 "how long ranks may take to save and end after a notice, "
                 "before they\nare killed (default 15s); give your "
                 "scheduler's time minus 10 s")
      ->type_name("TIME");
  app.add_option("--ping-interval", to.ping_interval,
                 "how often the nodes of a running world probe each other, at "
                 "least 2s,\nfor `status --pings` (default: never)")
      ->type_name("TIME");
  app.add_option("--linger", to.linger,
                 "after a failure, leave living ranks and the daemon running "
                 "for\nthis long (default: not at all)")
      ->type_name("TIME");
  to.requeue_option =
      app.add_option("--requeue-exit-code", to.requeue_exit_code,
                     "exit code of a run that is stopped for requeue "
                     "(default 75)")
          ->type_name("CODE")
          ->check(CLI::Range(1, 255));
}

void AddTls(CLI::App& app, TlsFlags& to) {
  app.add_option("--tls-ca", to.ca, "CA of your own PKI, PEM")
      ->type_name("PATH");
  app.add_option("--tls-cert", to.cert, "certificate of this side, PEM")
      ->type_name("PATH");
  app.add_option("--tls-key", to.key, "its key, PEM")->type_name("PATH");
}

void AddWhere(CLI::App& app, WhereFlags& to) {
  app.add_option("joinstring", to.join_string,
                 "the launcher's join string; -: from stdin (or ROLLCALL_JOIN)")
      ->type_name("");
  app.add_option("--endpoint,--rdzv-endpoint", to.endpoint,
                 "the daemon, or all daemons of one etcd, with --job and the "
                 "shared secret")
      ->type_name("HOST:PORT,...");
  app.add_option("--job,--rdzv-id", to.job, "the job's name")->type_name("ID");
  app.add_option("--secret-file", to.secret_file,
                 "file with the shared secret; -: stdin (or ROLLCALL_SECRET)")
      ->type_name("PATH");
  AddTls(app, to.tls);
  app.add_option("--tls-server-name", to.tls_server_name,
                 "name in the daemon's certificate (default: the endpoint's)")
      ->type_name("NAME");
}

void AddState(CLI::App& app, std::string& to) {
  app.add_option("--state", to,
                 "state folder (default $XDG_STATE_HOME/rollcall/JOB, or "
                 "$TMPDIR/rollcall-state-UID/JOB\nif that cannot be made)")
      ->type_name("DIR");
}

void AddLaunch(CLI::App& app, Target& to) {
  CLI::App* launch =
      app.add_subcommand("launch",
                         "run a job: start the daemon and this node's ranks\n"
                         "  rollcall launch [flags] -- CMD...");
  launch
      ->add_option("--job,--rdzv-id", to.launch.job,
                   "the job's name (default: made up)")
      ->type_name("ID");
  AddSettings(*launch, to.launch_settings);
  AddLocal(*launch, to.launch.local, to.preempt_signal);
  launch
      ->add_option("--local-workers", to.launch.local_workers,
                   "start N more agents on this machine, for tests")
      ->type_name("N");
  launch
      ->add_option("--listen", to.launch.listen,
                   "where the daemon listens (default: all addresses, a free "
                   "port;\nwith a shared secret port 29400)")
      ->type_name("ADDR:PORT");
  auto* secret = launch
                     ->add_option("--secret-file", to.launch.secret_file,
                                  "file with a secret that all nodes have in "
                                  "advance; -: stdin\n(or "
                                  "ROLLCALL_SECRET; make one with `rollcall "
                                  "token secret`)")
                     ->type_name("PATH");
  AddTls(*launch, to.launch.tls);
  launch->add_flag("--tls-bind-names", to.launch.tls_bind_names,
                   "an agent's node name must be a DNS name of the certificate "
                   "that it shows");
  launch
      ->add_flag("--insecure", to.launch.insecure,
                 "no TLS: only for tests, only on loopback")
      ->excludes(secret);
  AddState(*launch, to.launch.state);
  launch
      ->add_option("--token-ttl", to.token_ttl,
                   "how long the join string is valid (default 24h; never: "
                   "no end).\nA join string of a shared secret does not expire")
      ->type_name("TIME");
  launch->add_flag("--no-worker", to.launch.no_worker,
                   "run the daemon on this node, but no ranks");
  launch->footer(LimitsText());
}

void AddJoin(CLI::App& app, Target& to) {
  CLI::App* join =
      app.add_subcommand("join",
                         "join a job with this node's ranks\n"
                         "  rollcall join JOINSTRING [flags] -- CMD...\n"
                         "  rollcall join --endpoint H:P --job ID [flags] -- "
                         "CMD...");
  AddWhere(*join, to.join.where);
  AddLocal(*join, to.join.local, to.preempt_signal);
  AddSettings(*join, to.join_settings);
  // Started by a launcher: the same flags, plus those that only a launcher
  // passes.
  CLI::App* agent = app.add_subcommand("agent", "")->group("");
  AddWhere(*agent, to.agent.where);
  AddLocal(*agent, to.agent.local, to.preempt_signal);
  AddSettings(*agent, to.agent_settings);
  agent->add_flag("--launcher", to.agent.launcher, "");
  agent->add_option("--start-fd", to.agent.start_fd, "");
  agent->add_option("--secret-fd", to.agent.secret_fd, "");
}

void AddToken(CLI::App& app, Target& to) {
  CLI::App* token =
      app.add_subcommand("token", "make, list, revoke and rotate tokens");
  token->require_subcommand(0, 1);
  CLI::App* create = token->add_subcommand(
      "create", "make a token; its join string goes to stdout");
  create
      ->add_option("--role", to.role,
                   "worker (default): may join; viewer: may see the status; "
                   "admin: everything")
      ->type_name("ROLE");
  create
      ->add_option("--ttl", to.ttl,
                   "how long it is valid (default 24h; never: no end)")
      ->type_name("TIME");
  create
      ->add_option("--uses", to.token.uses,
                   "how many nodes may join with it (default: no limit)")
      ->type_name("N")
      ->check(CLI::Range(1u, std::numeric_limits<uint32_t>::max()));
  create->add_option("--description", to.token.description, "what it is for")
      ->type_name("TEXT");
  CLI::App* list = token->add_subcommand("list", "show all tokens' ids");
  CLI::App* revoke = token->add_subcommand(
      "revoke", "make a token invalid; nodes that it admitted stay");
  revoke->add_flag("--cascade", to.token.cascade,
                   "evict every node that it admitted");
  CLI::App* rotate = token->add_subcommand(
      "rotate", "make a new token like it, and revoke the old one");
  for (CLI::App* one : {revoke, rotate}) {
    one->add_option("id", to.token.id, "the token's id")->type_name("");
  }
  for (CLI::App* one : {create, list, revoke, rotate}) {
    AddWhere(*one, to.token.where);
    AddState(*one, to.token.where.state);
    one->add_flag("--json", to.token.json, "as JSON");
  }
  token->add_subcommand("secret",
                        "print a new shared secret, for --secret-file");
  for (CLI::App* one : token->get_subcommands({})) one->allow_extras();
}

void AddDrain(CLI::App& app, Target& to) {
  CLI::App* drain = app.add_subcommand(
      "drain",
      "remove a node from a job permanently, at a step boundary\n"
      "  rollcall drain NODE [JOINSTRING | --job ID] [flags]");
  drain->add_option("node", to.drain.node, "the node's name")->type_name("");
  AddWhere(*drain, to.drain.where);
  AddState(*drain, to.drain.where.state);
  drain
      ->add_option("--deadline", to.drain_deadline,
                   "when its ranks are killed at the latest (default: linked "
                   "ranks have until\ntheir next boundary, others the job's "
                   "--notice-time)")
      ->type_name("TIME");
  drain->add_option("--reason", to.drain.reason, "why, for log and status")
      ->type_name("TEXT");
  drain->add_flag("--json", to.drain.json, "as JSON");
}

void AddEvict(CLI::App& app, Target& to) {
  CLI::App* evict = app.add_subcommand(
      "evict",
      "remove a node from a job at once; it can return only with a valid "
      "token\n"
      "  rollcall evict NODE [JOINSTRING | --job ID] [flags]");
  evict->add_option("node", to.evict.node, "the node's name")->type_name("");
  AddWhere(*evict, to.evict.where);
  AddState(*evict, to.evict.where.state);
  evict->add_option("--reason", to.evict.reason, "why, for log and status")
      ->type_name("TEXT");
  evict->add_flag("--json", to.evict.json, "as JSON");
}

void AddDoctor(CLI::App& app, Target& to) {
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "check this node: network, limits, RDMA devices, GPUs\n"
      "  rollcall doctor [JOINSTRING | --endpoint H:P --job ID] [flags]\n"
      "With a job, its daemon is asked for its time.\n"
      "Exits with 0, 10 (a warning, or something unknown), 20 (wrong now, "
      "try again\nlater) or 30 (must be fixed first)");
  doctor
      ->add_option("--folder", to.doctor.folders,
                   "a folder that the run will write to, for example for "
                   "checkpoints;\nmay be given several times")
      ->type_name("DIR");
  AddWhere(*doctor, to.doctor.where);
  AddState(*doctor, to.doctor.where.state);
  doctor->add_flag("--all", to.doctor.all,
                   "also show what is ok or does not apply to this node");
  doctor->add_flag("--json", to.doctor.json, "as JSON, all findings");
}

void AddOthers(CLI::App& app, Target& to) {
  CLI::App* status = app.add_subcommand("status", "show a job's state");
  AddWhere(*status, to.status.where);
  AddState(*status, to.status.where.state);
  status->add_flag("--json", to.status.json, "as JSON");
  CLI::Option* watch = status->add_flag("--watch", to.status.watch,
                                        "print each change until the job ends");
  status
      ->add_flag("--pings", to.status.pings,
                 "also show how long connecting took between the nodes at "
                 "the latest probe\n(see --ping-interval of launch)")
      ->excludes(watch);

  CLI::App* stop = app.add_subcommand("stop", "end a job");
  AddWhere(*stop, to.stop.where);
  AddState(*stop, to.stop.where.state);
  stop->add_option("--exit-code", to.stop.exit_code,
                   "exit code of the launcher and all agents (default 143)")
      ->type_name("CODE")
      ->check(CLI::Range(0, 255));
  stop->add_flag("--now", to.stop.now, "do not wait for the ranks to stop");

  AddDrain(app, to);
  AddEvict(app, to);
  AddToken(app, to);
  AddDoctor(app, to);

  CLI::App* version = app.add_subcommand("version", "show the version");
  version->add_flag("--json", to.version.json, "as JSON");

  CLI::App* daemon = app.add_subcommand("daemon", "")->group("");
  daemon->add_option("--job", to.daemon.job, "");
  daemon->add_option("--state", to.daemon.state, "");
  daemon->add_option("--listen", to.daemon.listen, "");
  daemon->add_option("--settings", to.daemon.settings, "");
  daemon->add_option("--ready-fd", to.daemon.ready_fd, "");
  daemon->add_option("--beat-fd", to.daemon.beat_fd, "");
  daemon->add_option("--start-fd", to.daemon.start_fd, "");
  daemon->add_option("--secret-fd", to.daemon.secret_fd, "");
  daemon->add_option("--token-ttl", to.token_ttl, "");
  daemon->add_flag("--resume", to.daemon.resume, "");
  daemon->add_flag("--ephemeral", to.daemon.ephemeral, "");
  daemon->add_flag("--insecure", to.daemon.insecure, "");
  AddTls(*daemon, to.daemon.tls);
  daemon->add_flag("--tls-bind-names", to.daemon.tls_bind_names, "");
}

std::unique_ptr<CLI::App> MakeParser(Target& to) {
  auto app = std::make_unique<CLI::App>(
      "rollcall brings a set of machines together for one training run.",
      "rollcall");
  AddLaunch(*app, to);
  AddJoin(*app, to);
  AddOthers(*app, to);
  // Unknown words are handled here, to suggest a similar one.
  app->allow_extras();
  for (CLI::App* command : app->get_subcommands({})) command->allow_extras();
  return app;
}

std::vector<std::string> FlagNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

absl::Status Unknown(const std::string& kind, const std::string& word,
                     const std::vector<std::string>& known,
                     const std::string& help) {
  const std::string name = word.substr(0, word.find('='));
  const auto nearest = Nearest(name, known);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", kind, " ", name,
                   nearest ? absl::StrCat("; did you mean ", *nearest, "?")
                           : absl::StrCat("; see `", help, "`")));
}

absl::Status CheckExtras(const CLI::App& app, const CLI::App* command) {
  if (command == nullptr) {
    const std::vector<std::string> extras = app.remaining();
    if (extras.empty()) {
      return absl::InvalidArgumentError(
          "expected a command: launch, join, status, drain, evict, stop, "
          "token, doctor or version; see `rollcall --help`");
    }
    return Unknown(absl::StartsWith(extras[0], "-") ? "flag" : "command",
                   extras[0], CommandNames(app), "rollcall --help");
  }
  const std::string help =
      absl::StrCat("rollcall ", command->get_name(), " --help");
  std::vector<std::string> extras = command->remaining();
  if (extras.empty()) extras = app.remaining();
  for (const std::string& extra : extras) {
    if (absl::StartsWith(extra, "-")) {
      return Unknown("flag", extra, FlagNames(*command), help);
    }
  }
  if (extras.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected word '", extras[0],
                   "'; the command to run goes after `--`, as in `rollcall ",
                   command->get_name(), " ... -- ", extras[0], "`"));
}

// Usually an unset variable, as in --job "$JOB": the user does not mean the
// default.
absl::Status CheckEmpty(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    // A reason or a description may be empty.
    if (option->get_type_name() == "TEXT") continue;
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      const std::string name = option->get_positional()
                                   ? option->get_name(/*positional=*/true)
                                   : option->get_name();
      const std::string type = option->get_type_name();
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": expected ", type.empty() ? "a value" : type,
          ", got an empty one; is the variable that it comes from set? Leave ",
          name, " out for its default"));
    }
  }
  return absl::OkStatus();
}

// A time limit; zero: no limit.
absl::StatusOr<absl::Duration> ParseTimeLimit(const std::string& flag,
                                              const std::string& text) {
  if (text == "never" || text == "0" || text == "0s") {
    return absl::ZeroDuration();
  }
  return ParseDurationFlag(flag, text, Limits::wait_max);
}

absl::Status ReadSettings(const SettingsText& text, v1::JobSettings& to) {
  if (!text.nodes.empty()) {
    auto nodes = ParseNodes(text.nodes);
    if (!nodes.ok()) return nodes.status();
    to.set_nodes_min(nodes->min);
    to.set_nodes_max(nodes->max);
  }
  if (!text.max_restarts_option->empty()) {
    to.set_max_restarts(text.max_restarts);
  }
  if (text.grow == "boundary") {
    to.set_grow(v1::GROW_BOUNDARY);
  } else if (text.grow == "never") {
    to.set_grow(v1::GROW_NEVER);
  } else if (!text.grow.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grow takes boundary or never, not '", text.grow, "'"));
  }
  if (text.preflight == "off") {
    to.set_preflight(v1::PREFLIGHT_OFF);
  } else if (text.preflight == "warn") {
    to.set_preflight(v1::PREFLIGHT_WARN);
  } else if (text.preflight == "strict") {
    to.set_preflight(v1::PREFLIGHT_STRICT);
  } else if (!text.preflight.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--preflight takes off, warn or strict, not '", text.preflight, "'"));
  }
  if (!text.join_timeout.empty()) {
    auto timeout = ParseDurationFlag("--join-timeout", text.join_timeout,
                                     Limits::wait_max);
    if (!timeout.ok()) return timeout.status();
    ToProto(*timeout, to.mutable_join_timeout());
  }
  if (!text.hang_timeout.empty()) {
    auto timeout = ParseTimeLimit("--hang-timeout", text.hang_timeout);
    if (!timeout.ok()) return timeout.status();
    ToProto(*timeout, to.mutable_hang_timeout());
  }
  if (!text.start_timeout.empty()) {
    auto timeout = ParseTimeLimit("--start-timeout", text.start_timeout);
    if (!timeout.ok()) return timeout.status();
    ToProto(*timeout, to.mutable_start_timeout());
  }
  if (!text.notice_time.empty()) {
    auto time =
        ParseDurationFlag("--notice-time", text.notice_time, Limits::wait_max);
    if (!time.ok()) return time.status();
    ToProto(*time, to.mutable_notice_time());
  }
  if (text.ping_interval == "never" || text.ping_interval == "0" ||
      text.ping_interval == "0s") {
    ToProto(absl::ZeroDuration(), to.mutable_ping_interval());
  } else if (!text.ping_interval.empty()) {
    auto interval = ParseDurationFlag("--ping-interval", text.ping_interval,
                                      Limits::wait_max);
    if (!interval.ok()) return interval.status();
    if (*interval < Limits().probe_timeout) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--ping-interval takes at least ",
          absl::FormatDuration(Limits().probe_timeout),
          ", as long as a round of probes may take, or never; got ",
          text.ping_interval));
    }
    ToProto(*interval, to.mutable_ping_interval());
  }
  if (!text.linger.empty()) {
    auto linger = ParseDurationFlag("--linger", text.linger, Limits::wait_max);
    if (!linger.ok()) return linger.status();
    ToProto(*linger, to.mutable_linger());
  }
  if (!text.requeue_option->empty()) {
    to.set_requeue_exit_code(text.requeue_exit_code);
  }
  return absl::OkStatus();
}

absl::Status CheckCommand(const std::string& name, const Words& words) {
  if (words.command.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a command to run after `--`, as in `rollcall ",
                     name, " ... -- python train.py`"));
  }
  const std::string advice = ContainerAdvice(words.command);
  return advice.empty() ? absl::OkStatus() : absl::InvalidArgumentError(advice);
}

absl::Status CheckFolders(const std::vector<std::string>& folders,
                          size_t most) {
  if (folders.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--folder: expected at most ", most, ", got ", folders.size()));
}

absl::Status ReadLocal(const std::string& preempt_signal, LocalFlags& local) {
  if (!preempt_signal.empty()) {
    auto signal = ParseSignalFlag("--preempt-signal", preempt_signal);
    if (!signal.ok()) return signal.status();
    local.preempt_signal = *signal;
  }
  uint32_t ranks = 0;
  if (local.nproc_per_node != "auto" &&
      (!absl::SimpleAtoi(local.nproc_per_node, &ranks) || ranks < 1 ||
       ranks > Limits::ranks_per_node_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nproc-per-node takes 1 to ", Limits::ranks_per_node_max,
                     " or auto, not '", local.nproc_per_node, "'"));
  }
  if (local.nccl_env != "all" && local.nccl_env != "needed" &&
      local.nccl_env != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nccl-env takes all, needed or none, not '", local.nccl_env, "'"));
  }
  absl::Status few = CheckFolders(local.folders, kRunFoldersMax);
  if (!few.ok()) return few;
  for (const std::string& name : local.hosts_names) {
    if (absl::Status good = AdmitNodeName(name); !good.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--hosts-names: ", good.message()));
    }
  }
  return local.name.empty() ? absl::OkStatus() : AdmitNodeName(local.name);
}

absl::Status CheckTls(const TlsFlags& tls) {
  const int given = !tls.ca.empty() + !tls.cert.empty() + !tls.key.empty();
  if (given == 0 || given == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--tls-ca, --tls-cert and --tls-key go together; give all three");
}

absl::Status ReadTokenTtl(const std::string& text, absl::Duration& to) {
  if (text.empty()) return absl::OkStatus();
  const auto ttl = ParseTokenTtl("--token-ttl", text);
  if (ttl.ok()) to = *ttl;
  return ttl.status();
}

absl::StatusOr<Invocation> Launch(const Words& words, Target& to) {
  if (absl::Status good = CheckCommand("launch", words); !good.ok()) {
    return good;
  }
  LaunchFlags& launch = to.launch;
  absl::Status read = ReadLocal(to.preempt_signal, launch.local);
  if (!read.ok()) return read;
  if (!launch.job.empty()) {
    if (absl::Status good = AdmitJobId(launch.job); !good.ok()) return good;
  }
  launch.command = words.command;
  if (launch.local_workers >= Limits::nodes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("--local-workers takes less than ", Limits::nodes_max));
  }
  if (launch.no_worker && launch.local_workers == 0 &&
      to.launch_settings.nodes.empty()) {
    return absl::InvalidArgumentError(
        "--no-worker needs --nodes: how many nodes will join");
  }
  const uint32_t here = launch.local_workers + (launch.no_worker ? 0 : 1);
  launch.settings.set_nodes_min(here);
  launch.settings.set_nodes_max(here);
  read = ReadSettings(to.launch_settings, launch.settings);
  if (read.ok()) read = CheckTls(launch.tls);
  if (read.ok()) read = ReadTokenTtl(to.token_ttl, launch.token_ttl);
  if (!read.ok()) return read;
  return Invocation(std::move(launch));
}

absl::StatusOr<Invocation> Join(const Words& words, JoinFlags& join,
                                const SettingsText& settings,
                                const std::string& preempt_signal) {
  if (absl::Status good = CheckCommand("join", words); !good.ok()) {
    return good;
  }
  join.command = words.command;
  absl::Status read = ReadLocal(preempt_signal, join.local);
  if (read.ok()) read = ReadSettings(settings, join.settings);
  if (read.ok()) read = CheckTls(join.where.tls);
  if (!read.ok()) return read;
  join.join_timeout = settings.join_timeout;
  return Invocation(std::move(join));
}

absl::StatusOr<Invocation> Token(const CLI::App* verb, Target& to) {
  using Verb = TokenFlags::Verb;
  if (verb == nullptr) {
    return absl::InvalidArgumentError(
        "expected one of create, list, revoke, rotate or secret after "
        "`rollcall "
        "token`; see `rollcall token --help`");
  }
  TokenFlags& token = to.token;
  const std::string& name = verb->get_name();
  token.verb = name == "create"   ? Verb::kCreate
               : name == "revoke" ? Verb::kRevoke
               : name == "rotate" ? Verb::kRotate
               : name == "secret" ? Verb::kSecret
                                  : Verb::kList;
  const bool by_id = token.verb == Verb::kRevoke || token.verb == Verb::kRotate;
  if (by_id && token.id.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("`rollcall token ", name,
                     "` needs a token's id; see `rollcall token "
                     "list`"));
  }
  absl::StatusOr<v1::Role> role = ParseRole(to.role);
  if (!role.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", role.status().message()));
  }
  token.role = *role;
  if (to.ttl == "never") {
    token.ttl = absl::InfiniteDuration();
  } else if (!to.ttl.empty()) {
    absl::StatusOr<absl::Duration> ttl = ParseDurationFlag("--ttl", to.ttl);
    if (!ttl.ok()) return ttl.status();
    if (*ttl < absl::Seconds(1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ttl: expected 1s at least, got ", to.ttl));
    }
    token.ttl = *ttl;
  }
  if (absl::Status good = CheckTls(token.where.tls); !good.ok()) return good;
  return Invocation(std::move(token));
}

// Checks the NODE of `rollcall drain NODE` and `rollcall evict NODE`.
absl::Status CheckNode(const char* command, const std::string& node) {
  if (node.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("which node? `rollcall ", command,
                     " NODE`; `rollcall status` names them"));
  }
  if (absl::StartsWith(node, "rc1.")) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a node's name before the join string: "
                     "`rollcall ",
                     command, " NODE JOINSTRING`"));
  }
  return AdmitNodeName(node);
}

absl::StatusOr<Invocation> Evict(Target& to) {
  if (absl::Status good = CheckNode("evict", to.evict.node); !good.ok()) {
    return good;
  }
  return Invocation(std::move(to.evict));
}

absl::StatusOr<Invocation> Drain(Target& to) {
  DrainFlags& drain = to.drain;
  if (absl::Status good = CheckNode("drain", drain.node); !good.ok()) {
    return good;
  }
  if (!to.drain_deadline.empty()) {
    auto deadline =
        ParseDurationFlag("--deadline", to.drain_deadline, Limits::wait_max);
    if (!deadline.ok()) return deadline.status();
    drain.deadline = *deadline;
  }
  return Invocation(std::move(drain));
}

absl::StatusOr<Invocation> Build(const std::string& command, const Words& words,
                                 Target& to) {
  if (command == "launch") return Launch(words, to);
  if (command == "join") {
    return Join(words, to.join, to.join_settings, to.preempt_signal);
  }
  if (command == "agent") {
    to.agent.started_by_launcher = true;
    return Join(words, to.agent, to.agent_settings, to.preempt_signal);
  }
  if (words.has_command) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`rollcall ", command, "` runs no command; leave out what follows --"));
  }
  for (const TlsFlags* tls :
       {&to.status.where.tls, &to.stop.where.tls, &to.drain.where.tls,
        &to.evict.where.tls, &to.doctor.where.tls}) {
    if (absl::Status good = CheckTls(*tls); !good.ok()) return good;
  }
  if (command == "status") return Invocation(std::move(to.status));
  if (command == "stop") return Invocation(std::move(to.stop));
  if (command == "drain") return Drain(to);
  if (command == "evict") return Evict(to);
  if (command == "doctor") {
    absl::Status few = CheckFolders(to.doctor.folders, kFoldersMax);
    if (!few.ok()) return few;
    return Invocation(std::move(to.doctor));
  }
  if (command == "daemon") {
    absl::Status read = ReadTokenTtl(to.token_ttl, to.daemon.token_ttl);
    if (!read.ok()) return read;
    return Invocation(std::move(to.daemon));
  }
  return Invocation(to.version);
}

}  // namespace

void Fill(Invocation& invocation, const GivenSecrets& given) {
  std::visit(
      [&given](auto& flags) {
        if constexpr (requires { flags.where; }) flags.where.given = given;
        if constexpr (requires { flags.given; }) flags.given = given;
      },
      invocation);
}

absl::StatusOr<Invocation> ParseFlags(const Words& words) {
  // `rollcall --version`, as in other programs, besides the command.
  if (words.flags == std::vector<std::string>{"--version"}) {
    return Invocation(VersionFlags{});
  }
  Target target;
  const std::unique_ptr<CLI::App> app = MakeParser(target);
  std::vector<std::string> reversed(words.flags.rbegin(), words.flags.rend());
  try {
    app->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return Invocation(HelpText{app->help()});
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  const std::vector<CLI::App*> chosen = app->get_subcommands();
  const CLI::App* command = chosen.empty() ? nullptr : chosen.front();
  const bool token = command != nullptr && command->get_name() == "token";
  const CLI::App* verb = token && !command->get_subcommands().empty()
                             ? command->get_subcommands().front()
                             : nullptr;
  if (absl::Status good = CheckExtras(*app, verb != nullptr ? verb : command);
      !good.ok()) {
    return good;
  }
  if (absl::Status good = CheckEmpty(verb != nullptr ? *verb : *command);
      !good.ok()) {
    return good;
  }
  if (token && !words.has_command) return Token(verb, target);
  return Build(command->get_name(), words, target);
}

}  // namespace rollcall
