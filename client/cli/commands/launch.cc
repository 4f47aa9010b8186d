// `rollcall launch`: converts flags into the supervisor's options.
#include "client/launch/launch.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/digest.h"
#include "client/cli/job_lookup.h"
#include "client/launch/platform/environment.h"
#include "client/launch/takeover/launch_folder.h"
#include "client/launch/takeover/start_plan.h"
#include "daemon/base/durations.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/core/limits.h"
#include "daemon/journal/etcd/etcd_location.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

constexpr size_t kHostfileBytesMax = 4 << 20;
// The limit for the names of --hosts-names together. The kernel limits one
// argument to 128 KiB.
constexpr size_t kNamesBytesMax = 64 << 10;

// The launcher's flags that every agent started by it gets.
std::vector<std::string> AgentFlags(const LaunchFlags& flags,
                                    const std::vector<Host>& hosts) {
  const LocalFlags& local = flags.local;
  std::vector<std::string> to = {"--nproc-per-node", local.nproc_per_node};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) to.insert(to.end(), {name, value});
  };
  add("--rank-user", local.rank_user);
  add("--setup", local.setup);
  if (local.setup_retries > 0) {
    add("--setup-retries", absl::StrCat(local.setup_retries));
  }
  add("--log-dir", local.log_dir);
  for (const std::string& folder : local.folders) add("--folder", folder);
  // Files that nothing compares need not be read.
  const bool compared = flags.settings.preflight() != v1::PREFLIGHT_OFF;
  for (const std::string& file : local.same) {
    if (compared) add("--same", AbsolutePath(file));
  }
  for (const std::string& folder : local.shared) {
    if (compared) add("--shared", AbsolutePath(folder));
  }
  add("--nccl-lib", local.nccl_lib);
  if (local.nccl_env != LocalFlags().nccl_env) {
    add("--nccl-env", local.nccl_env);
  }
  add("--sysroot", local.sysroot);
  add("--verbs-lib", local.verbs_lib);
  add("--nvml-lib", local.nvml_lib);
  if (local.no_hosts) {
    to.push_back("--no-hosts");
  } else {
    add("--hosts-file", local.hosts_file);
    // The names of a hostfile's hosts are trusted, because the operator has
    // listed them.
    std::vector<std::string> names = local.hosts_names;
    for (const Host& host : hosts) names.push_back(host.name);
    const std::string all = absl::StrJoin(names, ",");
    add("--hosts-names", all.size() <= kNamesBytesMax
                             ? all
                             : absl::StrJoin(local.hosts_names, ","));
  }
  if (local.once) to.push_back("--once");
  if (local.attach) to.push_back("--attach");
  add("--socket", local.socket);
  if (local.preempt_signal != LocalFlags().preempt_signal) {
    add("--preempt-signal", absl::StrCat(local.preempt_signal));
  }
  if (local.json) to.push_back("--json");
  return to;
}

// The name of the user that this process runs as, or its number.
std::string OwnUser() {
  const passwd* const user = getpwuid(geteuid());
  return user == nullptr ? absl::StrCat(geteuid()) : user->pw_name;
}

// The hosts of --hostfile. `here`: this machine is among them, or there is no
// hostfile. This machine's entry gets the node name `own_name`; if that is
// empty, it is set first.
absl::StatusOr<std::vector<Host>> ReadHosts(const LaunchFlags& flags,
                                            std::string& own_name, bool& here) {
  here = flags.hostfile.empty() && flags.host_lines.empty();
  if (here) return std::vector<Host>();
  absl::StatusOr<std::string> text = absl::StrJoin(flags.host_lines, "\n");
  if (!flags.hostfile.empty()) {
    text = ReadWholeFile(flags.hostfile, kHostfileBytesMax);
  }
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.hostfile_from, ": ", text.status().message()));
  }
  const std::string from =
      flags.hostfile.empty()
          ? "the hosts of --spec"
          : absl::StrCat(flags.hostfile_from, " ", flags.hostfile);
  auto hosts = ParseHostfile(*text);
  if (!hosts.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, ": ", hosts.status().message()));
  }
  char hostname[256] = {};
  gethostname(hostname, sizeof(hostname) - 1);
  for (auto host = hosts->begin(); host != hosts->end(); ++host) {
    if (!IsThisMachine(*host, hostname)) continue;
    here = true;
    if (flags.no_worker) {
      hosts->erase(host);
      break;
    }
    if (const size_t at = host->target.rfind('@'); at != std::string::npos) {
      const std::string user = host->target.substr(0, at);
      const std::string& as = flags.local.rank_user;
      const std::string own = as.empty() ? OwnUser() : as;
      if (user != own) {
        return absl::InvalidArgumentError(absl::StrCat(
            from, ": ", host->target, " is this machine, where ranks run as ",
            own, "; leave the user out, or give --rank-user ", user));
      }
    }
    const bool named = host->name != "localhost" && host->name != "127.0.0.1";
    if (own_name.empty() && named) own_name = host->name;
    if (own_name.empty()) own_name = hostname;
    host->name = own_name;
    break;
  }
  std::set<std::string> names;
  for (const Host& host : *hosts) {
    if (names.insert(host.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(from,
                     ": this machine's node and another host "
                     "are both named ",
                     host.name, "; give one of them another name"));
  }
  if (!hosts->empty()) return hosts;
  return absl::InvalidArgumentError(
      absl::StrCat(from,
                   ": it names this machine alone, and --no-worker leaves it "
                   "out; name the hosts that train"));
}

// The values of --worker-template and --submit. INVALID_ARGUMENT: the template
// has a placeholder without a value, or lacks one that its workers need.
absl::StatusOr<SubmitTerms> ReadSubmit(const LaunchFlags& flags,
                                       const LaunchOptions& options) {
  SubmitTerms terms;
  if (flags.worker_template.empty()) return terms;
  const auto failed = [&flags](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.template_from, " ", flags.worker_template, ": ", why));
  };
  const auto text = ReadWholeFile(flags.worker_template, kTemplateBytesMax);
  if (!text.ok()) return failed(text.status().message());
  const auto names = PlaceholdersOf(*text);
  if (!names.ok()) return failed(names.status().message());
  if (options.settings.nodes_max() < 2) {
    return failed("there are no other nodes to submit; give --nodes");
  }
  if (!options.wire.secret.has_value() && !names->contains("JOIN")) {
    return failed(
        "its workers cannot join: give them ROLLCALL_JOIN as <<JOIN>>, or all "
        "nodes a shared secret");
  }
  const NodeEnvironment environment = VariablesOf(options.environment);
  const auto variable = [&environment](const char* name, std::string other) {
    const std::string* value = Find(environment, name);
    return value == nullptr ? other : *value;
  };
  const std::string& ranks = flags.local.nproc_per_node;
  terms.file = AbsolutePath(flags.worker_template);
  terms.command = flags.submit;
  terms.values = {{"NUM_NODES", absl::StrCat(options.settings.nodes_max())},
                  {"RDZV_ID", variable("RDZV_ID", options.job)},
                  {"GPUS_PER_NODE",
                   variable("GPUS_PER_NODE", ranks == "auto" ? "" : ranks)}};
  if (names->contains("GPUS_PER_NODE") &&
      terms.values["GPUS_PER_NODE"].empty()) {
    return failed("<<GPUS_PER_NODE>> has no value; give --nproc-per-node N");
  }
  return terms;
}

// Reads the variables of --export and of a run spec, and adds their values to
// `environment`, so that no argument list contains them. Flags override the run
// spec.
absl::StatusOr<std::vector<std::string>> ReadExported(
    const LaunchFlags& flags, std::vector<std::string>& environment) {
  std::vector<std::string> names;
  std::vector<std::string> words = flags.environment;
  words.insert(words.end(), flags.exported.begin(), flags.exported.end());
  for (const std::string& word : words) {
    const size_t end = word.find('=');
    const std::string name = word.substr(0, end);
    const std::string prefix = absl::StrCat(name, "=");
    const auto is_it = [&prefix](const std::string& entry) {
      return absl::StartsWith(entry, prefix);
    };
    if (name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--export: expected NAME or NAME=VALUE, got '", word, "'"));
    }
    if (end != std::string::npos) {
      std::erase_if(environment, is_it);
      environment.push_back(word);
    } else if (std::none_of(environment.begin(), environment.end(), is_it)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--export ", name, ": it is not set here; set it, or give ", name,
          "=VALUE"));
    }
    names.push_back(name);
  }
  return names;
}

// Sets every setting that the launcher itself uses; the daemon sets the rest.
v1::JobSettings Settings(const LaunchFlags& flags, const std::string& node,
                         const std::vector<Host>& hosts) {
  const Limits limits;
  v1::JobSettings settings = flags.settings;
  ToProto(limits.stop_grace, settings.mutable_stop_grace());
  if (!settings.has_notice_time()) {
    ToProto(limits.notice_time, settings.mutable_notice_time());
  }
  if (!settings.has_requeue_exit_code()) {
    settings.set_requeue_exit_code(limits.requeue_exit_code);
  }
  if (!node.empty()) settings.add_expected_nodes(node);
  const uint32_t local =
      std::min<uint32_t>(flags.local_workers, Limits::expected_nodes_max - 1);
  for (uint32_t i = 1; i <= local; ++i) {
    settings.add_expected_nodes(LocalWorkerName(i));
  }
  for (const Host& host : hosts) {
    const auto named = static_cast<size_t>(settings.expected_nodes_size());
    if (named >= Limits::expected_nodes_max) break;
    if (host.name != node) settings.add_expected_nodes(host.name);
  }
  if (!hosts.empty() && !flags.nodes_given) {
    const uint32_t nodes =
        static_cast<uint32_t>(hosts.size()) + flags.local_workers;
    settings.set_nodes_min(nodes);
    settings.set_nodes_max(nodes);
  }
  return settings;
}

// With a shared secret the port is fixed, so that every node knows it in
// advance.
std::string ListenAddress(const LaunchFlags& flags, const WireOptions& wire) {
  if (!flags.listen.empty()) return flags.listen;
  if (wire.insecure) return "127.0.0.1:0";
  return wire.secret.has_value() ? absl::StrCat("[::]:", kKnownPort) : "[::]:0";
}

absl::Status CheckWire(const WireOptions& wire) {
  if (wire.secret.has_value() + wire.insecure + !wire.tls.empty() > 1) {
    return absl::InvalidArgumentError(
        "a shared secret, --tls-cert and --insecure exclude each other; give "
        "one of them");
  }
  if (wire.bind_names && wire.tls.empty()) {
    return absl::InvalidArgumentError(
        "--tls-bind-names binds node names to the certificates of your own "
        "PKI; give --tls-ca, --tls-cert and --tls-key as well");
  }
  return wire.tls.empty() ? absl::OkStatus() : CheckTlsFiles(wire.tls);
}

// The daemon resolves the address and checks whether other machines may reach
// it.
absl::Status TakeHttp(const LaunchFlags& flags, WireOptions& wire) {
  if (flags.http.listen.empty()) return absl::OkStatus();
  auto listen = ParseHostPort(flags.http.listen);
  if (!listen.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http: ", listen.status().message()));
  }
  if (flags.insecure && !flags.http.insecure &&
      !IsLoopback(flags.http.listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http: expected a loopback address with --insecure, since there is "
        "no certificate, got ",
        flags.http.listen, "; give --http 127.0.0.1:PORT, or omit --insecure"));
  }
  wire.http = *std::move(listen);
  wire.http_insecure = flags.http.insecure;
  if (flags.http.insecure) {
    Complain(
        "WARNING: --http-insecure: who can read the traffic to --http can use "
        "the tokens in it");
  }
  return absl::OkStatus();
}

}  // namespace

int RunLaunchCommand(const LaunchFlags& given) {
  LaunchFlags flags = given;
  if (absl::Status own = TakeOwnVariables(flags.settings); !own.ok()) {
    return Fail(own);
  }
  WarnOfCommandLine(flags.local, flags.command);
  if (absl::Status passed = PassAttempt(); !passed.ok()) return Fail(passed);
  if (EtcdLocation::Means(flags.state)) {
    return Fail(absl::InvalidArgumentError(
        "a launcher keeps its state in a folder: expected --state DIR; for "
        "state in etcd start several `rollcalld --state etcd://...`, and "
        "`rollcall join --endpoint H:P,H:P,H:P` on every node"));
  }
  if (absl::Status there = CheckLibrary(flags.local.nccl_lib); !there.ok()) {
    return Fail(there);
  }
  // Each agent looks the user up again; the launcher only reports an error
  // sooner.
  if (auto user = RankUser(flags.local.rank_user); !user.ok()) {
    return Fail(user.status());
  }
  LaunchOptions options;
  options.job_made_up = flags.job.empty();
  options.ephemeral = flags.job.empty() && flags.state.empty();
  options.job =
      flags.job.empty()
          ? absl::StrCat("job-", absl::BytesToHexString(RandomBytes(3)))
          : flags.job;
  std::string warning;
  auto secret = GivenSecret(flags.secret_file, flags.given.secret, &warning);
  if (!secret.ok()) return Fail(secret.status());
  if (!flags.tls.key.empty()) {
    absl::Status fits = CheckPrivateFile(flags.tls.key, &warning);
    if (!fits.ok()) return Fail(fits);
  }
  if (!warning.empty()) Complain(absl::StrCat("WARNING: ", warning));
  options.wire.secret = *std::move(secret);
  options.wire.insecure = flags.insecure;
  options.wire.tls = {AbsolutePath(flags.tls.cert), AbsolutePath(flags.tls.key),
                      AbsolutePath(flags.tls.ca)};
  options.wire.bind_names = flags.tls_bind_names;
  if (absl::Status fits = TakeHttp(flags, options.wire); !fits.ok()) {
    return Fail(fits);
  }
  if (absl::Status fits = CheckWire(options.wire); !fits.ok()) {
    return Fail(fits);
  }
  const std::string where = ListenAddress(flags, options.wire);
  if (flags.insecure && !IsLoopback(where)) {
    Complain(
        absl::StrCat("--insecure is for loopback alone: expected --listen "
                     "127.0.0.1:PORT, got ",
                     where));
    return kExitUsage;
  }
  auto listen = ParseHostPort(where);
  if (!listen.ok()) {
    Complain(absl::StrCat("--listen: ", listen.status().message()));
    return kExitUsage;
  }
  options.listen = *std::move(listen);
  if (flags.insecure && !(flags.hostfile.empty() && flags.host_lines.empty())) {
    Complain("--insecure is for loopback alone; --hostfile needs TLS");
    return kExitUsage;
  }
  std::string own_name = flags.local.name;
  bool here = false;
  auto hosts = ReadHosts(flags, own_name, here);
  if (!hosts.ok()) return Fail(hosts.status());
  options.hosts = *std::move(hosts);
  if (here && !flags.no_worker) {
    auto node = NodeName(own_name);
    if (!node.ok()) return Fail(node.status());
    options.node = *std::move(node);
  }
  options.settings = Settings(flags, options.node, options.hosts);
  options.state_dir = AbsolutePath(flags.state);
  if (flags.state.empty()) {
    const auto state = DefaultLaunchState(options.job);
    if (!state.ok()) return Fail(state.status());
    if (!state->notice.empty()) Complain(state->notice);
    options.state_dir = state->folder;
  }
  options.token_ttl = flags.token_ttl;
  options.local_workers = flags.local_workers;
  options.join_line = flags.join_line;
  options.agent_flags = AgentFlags(flags, options.hosts);
  options.command = flags.command;
  options.command_digest = absl::BytesToHexString(CommandDigest(flags.command));
  options.environment = PlainEnvironment();
  auto exported = ReadExported(flags, options.environment);
  if (!exported.ok()) return Fail(exported.status());
  options.ssh = {flags.ssh, flags.push, *std::move(exported)};
  auto submit = ReadSubmit(flags, options);
  if (!submit.ok()) return Fail(submit.status());
  options.submit = *std::move(submit);
  options.json = flags.local.json;
  PrepareGrpc();
  return RunLaunch(std::move(options));
}

}  // namespace rollcall
