#include "client/cli/flags/flag_groups.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/launch/platform/job_name.h"

namespace rollcall {

std::string CheckCount(const std::string& text) {
  uint32_t count = 0;
  if (absl::SimpleAtoi(text, &count)) return "";
  return absl::StrCat("expected a number of 0 or more, got '", text, "'");
}

void AddLocal(CLI::App& app, LocalFlags& to, std::string& preempt_signal) {
  app.add_option("--name", to.name, "this node's name (default: its hostname)")
      ->type_name("NODE");
  app.add_option("--nproc-per-node", to.nproc_per_node,
                 "ranks on this node; auto: one per GPU, else 1 (default 1)")
      ->type_name("N|auto");
  app.add_option("--rank-user", to.rank_user,
                 "run CMD as this user instead of root: NAME, UID or UID:GID")
      ->type_name("USER");
  app.add_option(
         "--setup", to.setup,
         "a shell command that runs once on each node before its "
         "ranks may start,\nfor example to copy data; if it fails before "
         "the first world, the job ends")
      ->type_name("CMD");
  app.add_option("--setup-retries", to.setup_retries,
                 "how often it is run again if it fails (default 0)")
      ->type_name("N")
      ->check(CheckCount);
  app.add_option("--log-dir", to.log_dir,
                 "also write each rank's output below this folder")
      ->type_name("DIR");
  app.add_option("--folder", to.folders,
                 "a folder that CMD writes to, for example for checkpoints: "
                 "its free space\nis checked; may be given several times")
      ->type_name("DIR");
  app.add_option("--same", to.same,
                 "a file that all nodes should have alike: a difference is "
                 "named before the\nranks start; may be given several times")
      ->type_name("FILE");
  app.add_option("--shared", to.shared,
                 "a folder that all nodes should see and write to: a node "
                 "with another one\ngets no seat; may be given several times")
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
  auto* attach = app.add_flag(
      "--attach", to.attach,
      "no CMD: the ranks are processes that others start; they come by a Unix\n"
      "socket, and are never killed");
  app.add_option("--socket", to.socket,
                 "where that socket lies (default: in the agent's folder)")
      ->type_name("PATH")
      ->needs(attach);
  app.add_flag("--json", to.json,
               "one JSON object per line on stdout; rank output on stderr");
  app.add_option("--nccl-env", to.nccl_env,
                 "network settings that CMD gets: all, needed (what NCCL would "
                 "get wrong;\ndefault) or none")
      ->type_name("all|needed|none");
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

void AddUnneeded(CLI::App& app, const std::vector<std::string>& names,
                 LocalFlags& to) {
  for (const std::string& name : names) {
    app.add_option_function<std::string>(
           name,
           [&to, name](const std::string&) { to.unneeded.push_back(name); }, "")
        ->group("");
  }
}

void AddJob(CLI::App& app, std::string& to, const std::string& help) {
  auto* job = app.add_option("--job", to, help)->type_name("ID");
  app.add_option_function<std::string>(
         "--rdzv-id",
         [&to](const std::string& name) {
           to = JobIdOf(name);
           if (to.empty()) {
             throw CLI::ValidationError(
                 "--rdzv-id", "expected a letter or digit, got '" + name + "'");
           }
         },
         "the same, of any text: in lower case, other characters as '-'")
      ->type_name("TEXT")
      ->excludes(job);
}

void AddSettings(CLI::App& app, SettingsText& to) {
  app.add_option("--nodes,--nnodes", to.nodes,
                 "number of nodes: exact, or minimum and maximum")
      ->type_name("N|MIN:MAX");
  to.max_restarts_option =
      app.add_option(
             "--max-restarts", to.max_restarts,
             "how many failures of ranks may cause a restart (default 3)")
          ->check(CheckCount)
          ->type_name("N");
  app.add_option("--grow", to.grow,
                 "when new nodes join a running world: boundary (default) or "
                 "never")
      ->type_name("boundary|never");
  app.add_option("--preflight", to.preflight,
                 "nodes that differ (NCCL, GPUs, RDMA ports, MTU, driver, "
                 "limits,\ncommand, NCCL_* and similar variables): off, warn "
                 "(default) or\nstrict (they get no seat)")
      ->type_name("off|warn|strict");
  app.add_flag("--node-check", to.node_check,
               "before a world is formed, its nodes check each other in pairs "
               "with\nrollcall-train; a node that fails or is about half as "
               "fast as the\nothers gets no seat");
  app.add_option("--env", to.env,
                 "a variable for the ranks of all nodes: NCCL_*, UCX_*, FI_*, "
                 "GLOO_*,\nTORCH_NCCL_*, OMP_NUM_THREADS and a few more; "
                 "without VALUE the\nlauncher's own; may be given several "
                 "times")
      ->type_name("NAME[=VALUE]");
  app.add_option("--join-timeout", to.join_timeout,
                 "how long to wait for missing nodes (default 10m)")
      ->type_name("TIME");
  app.add_option("--last-call", to.last_call,
                 "with --nodes MIN:MAX and at least MIN nodes: how long after "
                 "the latest\narrival a world is formed (default 1s; 0: at "
                 "once; at most 1h)")
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
  app.add_option("--setup-timeout", to.setup_timeout,
                 "how long --setup may take, all of its tries together "
                 "(default 10m)")
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

void AddHttp(CLI::App& app, HttpFlags& to) {
  auto* http =
      app.add_option("--http", to.listen,
                     "status page, /metrics and /status.json (default: none; "
                     "port 0: a free\none); beyond loopback with TLS and a "
                     "viewer's token")
          ->type_name("ADDR:PORT");
  app.add_flag("--http-insecure", to.insecure,
               "allow plain HTTP beyond loopback: the token can be read on its "
               "way")
      ->needs(http);
}

void AddWhere(CLI::App& app, WhereFlags& to) {
  app.add_option("joinstring", to.join_string,
                 "the launcher's join string; -: from stdin (or ROLLCALL_JOIN)")
      ->type_name("");
  app.add_option("--endpoint,--rdzv-endpoint", to.endpoint,
                 "the daemon, or all daemons of one etcd, with --job and the "
                 "shared secret")
      ->type_name("HOST:PORT,...");
  AddJob(app, to.job, "the job's name");
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

}  // namespace rollcall
