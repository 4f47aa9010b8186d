#include "client/cli/flags/flag_values.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/admin/addresses.h"
#include "client/agent/node_files/run_folder.h"
#include "client/cli/flags/command_words.h"
#include "client/cli/flags/setting_values.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

// The most folders that one `rollcall doctor` checks.
constexpr size_t kFoldersMax = 64;
// The most folders that --folder may name. Together with the folders that are
// found without a flag they stay within FactsLimits::folders_max.
constexpr size_t kRunFoldersMax = 8;
static_assert(kRunFoldersMax + 4 <= FactsLimits::folders_max);

// Checks the flags of an agent that starts no ranks.
absl::Status CheckAttach(const Argv& args, const LocalFlags& local) {
  if (!args.command.empty()) {
    return absl::InvalidArgumentError(
        "--attach: expected no command after `--`, because others start the "
        "ranks; leave out one of the two");
  }
  if (local.once) {
    return absl::InvalidArgumentError(
        "--once is about a command, and --attach has none; leave out one of "
        "the two");
  }
  if (!local.setup.empty()) {
    return absl::InvalidArgumentError(
        "--setup: expected none with --attach, because others start the ranks; "
        "run the command before them, and leave out one of the two");
  }
  if (local.socket.empty()) return absl::OkStatus();
  if (local.socket[0] == '/' && local.socket.back() != '/' &&
      local.socket.size() <= kSocketPathBytesMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--socket: expected an absolute path of at most ", kSocketPathBytesMax,
      " bytes (a Unix socket's limit), got one of ", local.socket.size(), ": ",
      local.socket));
}

absl::Status CheckCommand(const std::string& name, const Argv& args,
                          const LocalFlags& local) {
  if (local.attach) return CheckAttach(args, local);
  if (args.command.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a command to run after `--`, as in `rollcall ", name,
        " ... -- python train.py`; or --attach, if others start the ranks"));
  }
  if (local.setup_retries > 0 && local.setup.empty() && !args.one_of_many) {
    return absl::InvalidArgumentError(
        "--setup-retries: expected --setup CMD as well; give both or neither");
  }
  absl::Status outside = CheckContainer(args.command);
  if (!outside.ok()) return outside;
  return CheckRankStarter(args.command, local.nproc_per_node, local.once);
}

absl::Status CheckFolders(const std::vector<std::string>& folders,
                          size_t most) {
  if (folders.size() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--folder: expected at most ", most, ", got ", folders.size()));
}

// The paths of --same and --shared.
absl::Status CheckSame(const LocalFlags& local) {
  const size_t count = local.same.size() + local.shared.size();
  if (count > Limits::same_files_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("--same and --shared: expected at most ",
                     Limits::same_files_max, " in all, got ", count));
  }
  for (const auto& [flag, paths] : {std::pair("--same", &local.same),
                                    std::pair("--shared", &local.shared)}) {
    for (const std::string& path : *paths) {
      if (path.empty()) return Unfit(flag, "a path", path);
      if (absl::Status good =
              AdmitPlainText(flag, path, Limits::same_path_bytes_max / 2);
          !good.ok()) {
        return good;
      }
    }
  }
  return absl::OkStatus();
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
  if (few.ok()) {
    few = AdmitCount("--setup-retries", local.setup_retries,
                     Limits::setup_retries_max);
  }
  if (few.ok()) few = CheckSame(local);
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

// Refuses flags that only agents on other hosts use, if there are no other
// hosts.
absl::Status CheckHosts(const LaunchFlags& launch) {
  const char* unused = launch.push                       ? "--push"
                       : !launch.exported.empty()        ? "--export"
                       : launch.ssh != LaunchFlags().ssh ? "--ssh"
                                                         : nullptr;
  if (unused == nullptr || !launch.hostfile.empty() ||
      !launch.host_lines.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      unused, " is for other hosts: expected --hostfile FILE as well"));
}

// Refuses --socket if this launcher starts several agents, because one agent
// listens on a socket.
absl::Status CheckOneSocket(const LaunchFlags& launch) {
  if (launch.local.socket.empty() ||
      (launch.local_workers == 0 && launch.hostfile.empty() &&
       launch.host_lines.empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--socket is the path of one agent, and other agents start here too; "
      "leave it out, so that each makes its own and prints its path");
}

// Refuses quotes: arguments are separated by spaces only, so quotes would reach
// the program.
absl::Status CheckWords(absl::string_view flag, const std::string& words) {
  if (words.find_first_of("'\"\\") == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flag,
      ": expected words separated by spaces, found a quote "
      "or a backslash in '",
      words, "'; put the command into a script, and give its path"));
}

absl::Status CheckAddress(absl::string_view flag, const std::string& address) {
  if (address.empty()) return absl::OkStatus();
  const auto parsed = ParseHostPort(address);
  if (parsed.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", parsed.status().message()));
}

absl::StatusOr<Invocation> Launch(const Argv& args, TypedFlags& to) {
  if (absl::Status good = CheckCommand("launch", args, to.launch.local);
      !good.ok()) {
    return good;
  }
  LaunchFlags& launch = to.launch;
  absl::Status read = ReadLocal(to.preempt_signal, launch.local);
  if (!read.ok()) return read;
  if (!launch.job.empty()) {
    if (absl::Status good = AdmitJobId(launch.job); !good.ok()) return good;
  }
  launch.command = args.command;
  if (launch.local_workers >= Limits::nodes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("--local-workers takes less than ", Limits::nodes_max));
  }
  launch.nodes_given = !to.launch_settings.nodes.empty();
  if (launch.no_worker && launch.local_workers == 0 && !launch.nodes_given &&
      launch.hostfile.empty() && launch.host_lines.empty()) {
    return absl::InvalidArgumentError(
        "--no-worker needs --nodes: how many nodes will join");
  }
  const uint32_t here = launch.local_workers + (launch.no_worker ? 0 : 1);
  launch.settings.set_nodes_min(here);
  launch.settings.set_nodes_max(here);
  read = CheckHosts(launch);
  if (read.ok()) read = CheckOneSocket(launch);
  if (read.ok()) read = CheckWords("--submit", launch.submit);
  if (read.ok()) read = CheckWords("--ssh", launch.ssh);
  if (read.ok()) read = CheckAddress("--listen", launch.listen);
  if (read.ok()) read = CheckAddress("--http", launch.http.listen);
  if (read.ok()) read = ReadSettings(to.launch_settings, launch.settings);
  if (read.ok()) read = CheckTls(launch.tls);
  if (read.ok()) read = ReadTokenTtl(to.token_ttl, launch.token_ttl);
  if (!read.ok()) return read;
  return Invocation(std::move(launch));
}

absl::StatusOr<Invocation> Run(const Argv& args, TypedFlags& to) {
  RunFlags& run = to.run;
  LocalFlags& local = run.launch.local;
  run.nproc_per_node = local.nproc_per_node;
  if (local.nproc_per_node.empty()) local.nproc_per_node = "1";
  if (absl::Status good = CheckCommand("run", args, local); !good.ok()) {
    return good;
  }
  absl::Status read = ReadLocal(to.preempt_signal, local);
  if (read.ok()) read = ReadSettings(to.run_settings, run.launch.settings);
  if (!read.ok()) return read;
  if (!run.launch.job.empty()) {
    if (absl::Status good = AdmitJobId(run.launch.job); !good.ok()) return good;
  }
  run.nodes = to.run_settings.nodes;
  run.join_timeout = to.run_settings.join_timeout;
  run.launch.command = args.command;
  return Invocation(std::move(run));
}

absl::StatusOr<Invocation> Join(const Argv& args, JoinFlags& join,
                                const SettingsText& settings,
                                const std::string& preempt_signal) {
  if (absl::Status good = CheckCommand("join", args, join.local); !good.ok()) {
    return good;
  }
  join.command = args.command;
  absl::Status read = ReadLocal(preempt_signal, join.local);
  if (read.ok()) read = ReadSettings(settings, join.settings);
  if (read.ok()) read = CheckTls(join.where.tls);
  if (!read.ok()) return read;
  join.join_timeout = settings.join_timeout;
  return Invocation(std::move(join));
}

// Checks NODE and --reason of `rollcall drain NODE` and `rollcall evict NODE`.
absl::Status CheckRemoval(const char* command, const std::string& node,
                          const std::string& reason) {
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
  if (reason.size() > Limits::admin_reason_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--reason: expected at most ", Limits::admin_reason_bytes_max,
        " bytes, got ", reason.size()));
  }
  return AdmitNodeName(node);
}

absl::StatusOr<Invocation> Evict(TypedFlags& to) {
  if (absl::Status good = CheckRemoval("evict", to.evict.node, to.evict.reason);
      !good.ok()) {
    return good;
  }
  return Invocation(std::move(to.evict));
}

absl::StatusOr<Invocation> Drain(TypedFlags& to) {
  DrainFlags& drain = to.drain;
  if (absl::Status good = CheckRemoval("drain", drain.node, drain.reason);
      !good.ok()) {
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

absl::StatusOr<Invocation> Status(TypedFlags& to) {
  if (!to.status_since.empty()) {
    auto since =
        ParseDurationFlag("--since", to.status_since, absl::Hours(24 * 366));
    if (!since.ok()) return since.status();
    to.status.since = *since;
  }
  return Invocation(std::move(to.status));
}

// Checks the numbers and times of `rollcall render`. The platform's code checks
// the names.
absl::StatusOr<Invocation> ReadRender(const Argv& args, RenderFlags& render) {
  if (render.platform.empty()) {
    return absl::InvalidArgumentError(
        "expected a platform after `rollcall render`; see `rollcall render "
        "--help`");
  }
  for (const auto& [flag, value] : render.values) {
    absl::Status good;
    if (flag == "--nodes") {
      const auto nodes = ParseNodes(value);
      good = nodes.status();
      if (good.ok()) {
        render.values[flag] = nodes->min == nodes->max
                                  ? absl::StrCat(nodes->max)
                                  : absl::StrCat(nodes->min, ":", nodes->max);
      }
    } else if (flag == "--nproc-per-node") {
      LocalFlags local;
      local.nproc_per_node = value;
      good = ReadLocal("", local);
    } else if (flag == "--gpus") {
      uint32_t gpus = 0;
      if (!absl::SimpleAtoi(value, &gpus) ||
          gpus > Limits::ranks_per_node_max) {
        good = absl::InvalidArgumentError(
            absl::StrCat("--gpus takes 0 to ", Limits::ranks_per_node_max,
                         ", not '", value, "'"));
      }
    } else if (flag == "--join-timeout") {
      good = ParseDurationFlag(flag, value, Limits::wait_max).status();
    }
    if (!good.ok()) return good;
  }
  render.command = args.command;
  return Invocation(std::move(render));
}

absl::StatusOr<Invocation> ReadCompletion(const Argv& args,
                                          CompletionFlags& completion) {
  const std::string& shell = completion.shell;
  if (args.has_command ||
      (shell != "bash" && shell != "zsh" && shell != "fish")) {
    return absl::InvalidArgumentError(
        absl::StrCat("rollcall completion: expected bash, zsh or fish",
                     shell.empty() ? "" : absl::StrCat(", got '", shell, "'")));
  }
  return Invocation(std::move(completion));
}

}  // namespace

absl::StatusOr<Invocation> ReadToken(const CLI::App* verb, TypedFlags& to) {
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

absl::StatusOr<Invocation> ReadCommand(const std::string& command,
                                       const Argv& args, TypedFlags& to) {
  if (command == "run") return Run(args, to);
  if (command == "launch") return Launch(args, to);
  if (command == "join") {
    return Join(args, to.join, to.join_settings, to.preempt_signal);
  }
  if (command == "agent") {
    to.agent.started_by_launcher = true;
    return Join(args, to.agent, to.agent_settings, to.preempt_signal);
  }
  if (command == "remote") {
    to.remote.arguments = args.command;
    return Invocation(std::move(to.remote));
  }
  if (command == "render") return ReadRender(args, to.render);
  if (command == "completion") return ReadCompletion(args, to.completion);
  if (args.has_command) {
    return absl::InvalidArgumentError(absl::StrCat(
        "`rollcall ", command, "` runs no command; leave out what follows --"));
  }
  for (const TlsFlags* tls :
       {&to.status.where.tls, &to.stop.where.tls, &to.drain.where.tls,
        &to.evict.where.tls, &to.doctor.where.tls}) {
    if (absl::Status good = CheckTls(*tls); !good.ok()) return good;
  }
  if (command == "status") return Status(to);
  if (command == "stop") return Invocation(std::move(to.stop));
  if (command == "drain") return Drain(to);
  if (command == "evict") return Evict(to);
  if (command == "doctor") {
    absl::Status few = CheckFolders(to.doctor.folders, kFoldersMax);
    if (!few.ok()) return few;
    return Invocation(std::move(to.doctor));
  }
  if (command == "detect") return Invocation(to.detect);
  if (command == "hosted") return Invocation(to.hosted);
  if (command == "submit") return Invocation(std::move(to.submit));
  if (command == "daemon") {
    absl::Status read = ReadTokenTtl(to.token_ttl, to.daemon.token_ttl);
    if (!read.ok()) return read;
    return Invocation(std::move(to.daemon));
  }
  return Invocation(to.version);
}

}  // namespace rollcall
