#include "client/cli/flags/flag_grammar.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/cli/flags/flag_groups.h"
#include "client/cli/flags/flags_text.h"
#include "client/launch/render/render.h"

namespace rollcall {
namespace {

void AddSubmit(CLI::App& app, LaunchFlags& to) {
  auto* file = app.add_option("--worker-template", to.worker_template,
                              "run spec of a worker, with placeholders such as "
                              "<<NODE_RANK>>;\nthe launcher submits it for "
                              "each other node")
                   ->type_name("FILE");
  auto* submit = app.add_option("--submit", to.submit,
                                "the command that submits one: the spec's path "
                                "comes last, or in place\nof {}")
                     ->type_name("CMD")
                     ->needs(file);
  file->needs(submit);
}

void AddLaunch(CLI::App& app, TypedFlags& to) {
  CLI::App* launch =
      app.add_subcommand("launch",
                         "run a job: start the daemon and this node's ranks\n"
                         "  rollcall launch [flags] -- CMD...");
  AddJob(*launch, to.launch.job, "the job's name (default: made up)");
  AddSettings(*launch, to.launch_settings);
  AddLocal(*launch, to.launch.local, to.preempt_signal);
  launch
      ->add_option("--local-workers", to.launch.local_workers,
                   "start N more agents on this machine, for tests")
      ->check(CheckCount)
      ->type_name("N");
  launch
      ->add_option("--spec", to.launch_spec,
                   "YAML file with settings, command and environment; flags "
                   "win over it")
      ->type_name("FILE");
  auto* hostfile =
      launch
          ->add_option("--hostfile", to.launch.hostfile,
                       "start agents by ssh on these hosts: `[USER@]HOST "
                       "[slots=N] [name=NODE]`\nper line; this machine takes "
                       "part if it is one of them")
          ->type_name("FILE");
  launch->add_option("--host", to.launch.host_lines, "")
      ->group("")
      ->excludes(hostfile);
  launch
      ->add_option("--ssh", to.launch.ssh,
                   "the ssh command with its options (default ssh)")
      ->type_name("CMD");
  launch->add_flag("--push", to.launch.push,
                   "copy this binary to hosts that do not have it "
                   "(~/.cache/rollcall)");
  launch
      ->add_option("-x,--export", to.launch.exported,
                   "a variable for the ranks of other hosts; may be given "
                   "several times")
      ->type_name("NAME[=VALUE]");
  AddSubmit(*launch, to.launch);
  launch
      ->add_option("--listen", to.launch.listen,
                   "where the daemon listens (default: all addresses, a free "
                   "port;\nwith a shared secret port 29400)")
      ->type_name("ADDR:PORT");
  AddHttp(*launch, to.launch.http);
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
  AddUnneeded(
      *launch,
      {"--node-rank", "--master-addr", "--master-port", "--rdzv-backend"},
      to.launch.local);
  launch->footer(LimitsText());
}

void AddRun(CLI::App& app, TypedFlags& to) {
  CLI::App* run = app.add_subcommand(
      "run",
      "launch or join, as this node's platform says: the same line on every "
      "node\n"
      "  rollcall run [flags] -- CMD...");
  AddJob(*run, to.run.launch.job,
         "the job's name (default: the platform's, else run)");
  AddSettings(*run, to.run_settings);
  // Stays empty unless it is given, because the platform may have the number.
  to.run.launch.local.nproc_per_node.clear();
  AddLocal(*run, to.run.launch.local, to.preempt_signal);
  run->add_option("--node-rank", to.run.node_rank,
                  "which node this is; 0 launches (default: as the platform "
                  "says)")
      ->type_name("N");
  run->add_option("--endpoint,--rdzv-endpoint,--master-addr", to.run.endpoint,
                  "the launcher's node (default: as the platform says, and "
                  "port 29400)")
      ->type_name("HOST[:PORT]");
  run->add_option("--master-port", to.run.port, "")->group("");
  run->add_option("--secret-file", to.run.launch.secret_file,
                  "file with a secret that all nodes have in advance; -: "
                  "stdin\n(or ROLLCALL_SECRET; make one with `rollcall token "
                  "secret`)")
      ->type_name("PATH");
  AddHttp(*run, to.run.launch.http);
  AddSubmit(*run, to.run.launch);
  AddState(*run, to.run.launch.state);
  AddUnneeded(*run, {"--rdzv-backend"}, to.run.launch.local);
  CLI::App* detect = app.add_subcommand(
      "detect", "show what `rollcall run` finds out about this node");
  detect->add_flag("--explain", to.detect.explain,
                   "also show which variable says so");
  detect->add_flag("--json", to.detect.json, "as JSON");
}

void AddJoin(CLI::App& app, TypedFlags& to) {
  CLI::App* join =
      app.add_subcommand("join",
                         "join a job with this node's ranks\n"
                         "  rollcall join JOINSTRING [flags] -- CMD...\n"
                         "  rollcall join --endpoint H:P --job ID [flags] -- "
                         "CMD...");
  AddWhere(*join, to.join.where);
  AddLocal(*join, to.join.local, to.preempt_signal);
  AddSettings(*join, to.join_settings);
  AddUnneeded(
      *join,
      {"--node-rank", "--master-addr", "--master-port", "--rdzv-backend"},
      to.join.local);
  // The agent that a launcher starts: the flags of `join`, plus those that only
  // a launcher passes.
  CLI::App* agent = app.add_subcommand("agent", "")->group("");
  AddWhere(*agent, to.agent.where);
  AddLocal(*agent, to.agent.local, to.preempt_signal);
  AddSettings(*agent, to.agent_settings);
  agent->add_flag("--launcher", to.agent.launcher, "");
  agent->add_flag("--remote", to.agent.remote, "");
  agent->add_option("--start-fd", to.agent.start_fd, "");
  agent->add_option("--secret-fd", to.agent.secret_fd, "");
  agent->add_option("--live-fd", to.agent.live_fd, "");
}

void AddToken(CLI::App& app, TypedFlags& to) {
  CLI::App* token =
      app.add_subcommand("token", "make, list, revoke and rotate tokens");
  token->require_subcommand(0, 1);
  CLI::App* create = token->add_subcommand(
      "create", "make a token; its join string goes to stdout");
  create
      ->add_option("--role", to.role,
                   "worker (default): may join; viewer: may see the status; "
                   "admin: everything")
      ->type_name("worker|viewer|admin");
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

void AddDrain(CLI::App& app, TypedFlags& to) {
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

void AddEvict(CLI::App& app, TypedFlags& to) {
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

void AddRender(CLI::App& app, RenderFlags& to) {
  CLI::App* render = app.add_subcommand(
      "render", "print the run spec of a platform: " +
                    absl::StrJoin(RenderPlatforms(), ", ") +
                    "\n  rollcall render PLATFORM [flags] [-- CMD...]");
  render->add_option("platform", to.platform, "")
      ->type_name(absl::StrJoin(RenderPlatforms(), "|"));
  const auto add = [render, &to](const std::string& flag, const char* type,
                                 const char* help) {
    render
        ->add_option_function<std::string>(
            flag,
            [&to, flag](const std::string& value) {
              to.values[flag.substr(0, flag.find(','))] = value;
            },
            help)
        ->type_name(type);
  };
  add("--job", "ID", "the job's name, and that of its objects");
  add("--image", "IMAGE", "the container image, with rollcall in PATH");
  add("--nodes,--nnodes", "N|MIN:MAX",
      "number of nodes; a range for pods of Kubernetes alone");
  add("--nproc-per-node", "N|auto", "ranks per node");
  add("--gpus", "N", "GPUs that a pod asks for; 0: none");
  add("--secret-name", "NAME",
      "the Kubernetes Secret with the shared secret (default JOB-secret)");
  add("--join-timeout", "TIME", "how long nodes wait for each other");
  render
      ->add_option("--host", to.hosts,
                   "a host of the hostfile: `[USER@]HOST [slots=N]`; may be "
                   "given several times")
      ->type_name("HOST");
}

void AddDoctor(CLI::App& app, TypedFlags& to) {
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

void AddOthers(CLI::App& app, TypedFlags& to) {
  CLI::App* status = app.add_subcommand("status", "show a job's state");
  AddWhere(*status, to.status.where);
  AddState(*status, to.status.where.state);
  status->add_flag("--json", to.status.json, "as JSON");
  CLI::Option* watch = status->add_flag("--watch", to.status.watch,
                                        "show the job until it ends: a full "
                                        "screen on a terminal,\nelse each "
                                        "change as a line");
  CLI::Option* pings =
      status
          ->add_flag("--pings", to.status.pings,
                     "also show how long connecting took between the nodes at "
                     "the latest probe\n(see --ping-interval of launch)")
          ->excludes(watch);
  CLI::Option* events =
      status
          ->add_flag("--events", to.status.events,
                     "the job's latest events instead: worlds, losses, "
                     "notices, warnings")
          ->excludes(watch)
          ->excludes(pings);
  status
      ->add_option("--since", to.status_since,
                   "with --events: only those of the latest time of this "
                   "length, 10m say")
      ->type_name("TIME")
      ->needs(events);

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
  AddRender(app, to.render);

  CLI::App* completion =
      app.add_subcommand("completion",
                         "print a shell's completion script\n"
                         "  bash: source <(rollcall completion bash)\n"
                         "  zsh:  source <(rollcall completion zsh)\n"
                         "  fish: rollcall completion fish | source");
  completion->add_option("shell", to.completion.shell, "")
      ->type_name("bash|zsh|fish");

  CLI::App* version = app.add_subcommand("version", "show the version");
  version->add_flag("--json", to.version.json, "as JSON");

  CLI::App* remote = app.add_subcommand("remote", "")->group("");
  remote->add_option("--name", to.remote.name, "");
  remote->add_option("--target", to.remote.target, "");
  remote->add_option("--ssh", to.remote.ssh, "");
  remote->add_flag("--push", to.remote.push, "");
  remote->add_option("--export", to.remote.exported, "");
  remote->add_option("--start-fd", to.remote.start_fd, "");
  remote->add_option("--secret-fd", to.remote.secret_fd, "");
  remote->add_option("--live-fd", to.remote.live_fd, "");
  CLI::App* submit = app.add_subcommand("submit", "")->group("");
  submit->add_option("--template", to.submit.file, "");
  submit->add_option("--command", to.submit.command, "");
  submit->add_option("--value", to.submit.values, "");
  submit->add_option("--workers", to.submit.workers, "");
  submit->add_option("--workers-min", to.submit.workers_min, "");
  submit->add_option("--start-fd", to.submit.start_fd, "");
  submit->add_option("--secret-fd", to.submit.secret_fd, "");
  CLI::App* hosted = app.add_subcommand("hosted", "")->group("");
  hosted->add_option("version", to.hosted.version, "");

  CLI::App* daemon = app.add_subcommand("daemon", "")->group("");
  daemon->add_option("--job", to.daemon.job, "");
  daemon->add_option("--state", to.daemon.state, "");
  daemon->add_option("--listen", to.daemon.listen, "");
  AddHttp(*daemon, to.daemon.http);
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

}  // namespace

std::unique_ptr<CLI::App> MakeParser(TypedFlags& to) {
  auto app = std::make_unique<CLI::App>(
      "rollcall brings a set of machines together for one training run.",
      "rollcall");
  AddRun(*app, to);
  AddLaunch(*app, to);
  AddJoin(*app, to);
  AddOthers(*app, to);
  // Unknown arguments are handled here instead of by CLI11, to suggest a
  // similar one.
  app->allow_extras();
  for (CLI::App* command : app->get_subcommands({})) command->allow_extras();
  return app;
}

}  // namespace rollcall
