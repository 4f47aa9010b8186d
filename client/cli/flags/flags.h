// Flags: the grammar of the command line, as values.
//
// Pure: it reads only the arguments. The commands find out what a value means
// on this machine (`--nproc-per-node auto`, a job's state folder).
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_FLAGS_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_FLAGS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/flags/argv.h"
#include "daemon/core/limits.h"
#include "daemon/security/given_secrets.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The flags of one agent on its node.
struct LocalFlags {
  std::string name;  // Empty: the hostname.
  std::string nproc_per_node = "1";
  // The user that ranks run as; empty: this process's user.
  std::string rank_user;
  // A shell command that runs before the node gets a seat; empty: none.
  std::string setup;
  uint32_t setup_retries = 0;
  std::string log_dir;
  // Further folders that the ranks write to, for example for checkpoints.
  std::vector<std::string> folders;
  // Files that all nodes should have alike, and folders that all should see.
  std::vector<std::string> same;
  std::vector<std::string> shared;
  std::string hosts_file = "/etc/hosts";
  bool no_hosts = false;
  // Node names that are always written to the hosts file, even if the resolver
  // or another line of the file gives them another address.
  std::vector<std::string> hosts_names;
  bool once = false;
  // There is no command: other programs start the ranks, which connect to
  // `socket`. Empty: a socket in the agent's folder.
  bool attach = false;
  std::string socket;
  bool json = false;
  std::string nccl_lib;
  // all, needed or none; see NcclEnv.
  std::string nccl_env = "needed";
  // Hidden, for tests: the root folder below which this node's devices are
  // searched, and the device libraries; see DeviceFactsOptions.
  std::string sysroot;
  std::string verbs_lib;
  std::string nvml_lib;
  // The signal that asks plain ranks to save and stop.
  int preempt_signal = 15;
  // torchrun's flags that were given and have no effect, as typed.
  std::vector<std::string> unneeded;
};

// Files of the user's own PKI.
struct TlsFlags {
  std::string ca;
  std::string cert;
  std::string key;
};

// Flags that name a job, and how to reach and authenticate to it.
struct WhereFlags {
  std::string join_string;
  std::string endpoint;
  std::string job;
  std::string secret_file;
  TlsFlags tls;
  // The name in the daemon's certificate, if it is not the endpoint's host.
  std::string tls_server_name;
  std::string state;
  // Secrets from the environment.
  GivenSecrets given;
};

// The daemon's HTTP port; see ServerOptions.
struct HttpFlags {
  std::string listen;  // Empty: none.
  bool insecure = false;
};

struct LaunchFlags {
  LocalFlags local;
  std::string job;
  std::string listen;  // Empty: all addresses; see launch.cc.
  HttpFlags http;
  uint32_t local_workers = 0;
  // Other hosts, and how they are reached; see SshOptions.
  std::string hostfile;
  // The flag or file that names it, for messages.
  std::string hostfile_from = "--hostfile";
  // Lines in hostfile syntax, instead of a hostfile.
  std::vector<std::string> host_lines;
  std::string ssh = "ssh";
  bool push = false;
  // NAME or NAME=VALUE.
  std::vector<std::string> exported;
  // For the ranks of all hosts, NAME=VALUE.
  std::vector<std::string> environment;
  // A run spec with placeholders, and the command that submits one; see
  // submit.h.
  std::string worker_template;
  std::string template_from = "--worker-template";
  std::string submit;
  // Print how to join. False for `rollcall run`, because the other nodes know
  // it.
  bool join_line = true;
  // --nodes was given; otherwise a hostfile determines the number.
  bool nodes_given = false;
  // A secret that was made before the launcher starts, so that all specs can
  // contain it; empty: the daemon makes its own CA and tokens.
  std::string secret_file;
  TlsFlags tls;
  // Node names must match the agents' certificates.
  bool tls_bind_names = false;
  bool insecure = false;
  GivenSecrets given;
  std::string state;
  // Validity of the join string; infinite: it does not expire.
  absl::Duration token_ttl = Limits().token_ttl;
  bool no_worker = false;
  // Only the given settings are set; nodes are always set.
  v1::JobSettings settings;
  std::vector<std::string> command;
};

// `launch --spec FILE`, before the file is read.
struct SpecFlags {
  std::string file;
  Argv args;
  // The flags in `args`, by their long names with dashes, and aliases.
  std::set<std::string> on_command_line;
};

struct JoinFlags {
  LocalFlags local;
  WhereFlags where;
  // For a job that a standing daemon creates; only the given settings are set.
  v1::JobSettings settings;
  std::string join_timeout;
  std::vector<std::string> command;
  // The next three are only for the hidden command `agent`. A launcher started
  // this agent.
  bool started_by_launcher = false;
  // The agent is that of the launcher's own node.
  bool launcher = false;
  // The agent runs on another host than its launcher.
  bool remote = false;
  // See StartGate; -1: there is no gate.
  int start_fd = -1;
  // The descriptor with the join string; see PassSecret.
  int secret_fd = -1;
  // See live_bell.h.
  int live_fd = -1;
};

// Flags that are the same on every node; see run_plan.h.
struct RunFlags {
  // The flags of a launcher. Only the given settings are set.
  LaunchFlags launch;
  // As typed; empty if not given, without the default.
  std::string nproc_per_node;
  std::string nodes;
  std::string join_timeout;
  std::string node_rank;
  // HOST or HOST:PORT of the launcher's node.
  std::string endpoint;
  // torchrun's --master_port.
  std::string port;
};

struct DetectFlags {
  bool explain = false;
  bool json = false;
};

// Hidden: the process that a launcher starts for an agent on another host; see
// remote_agent.h.
struct RemoteFlags {
  std::string name;
  std::string target;
  std::string ssh;
  bool push = false;
  std::vector<std::string> exported;  // NAME
  std::vector<std::string> arguments;
  // See JoinFlags.
  int start_fd = -1;
  int secret_fd = -1;
  int live_fd = -1;
};

// Hidden: the process that a launcher starts to submit workers; see submit.h.
struct SubmitFlags {
  std::string file;
  std::string command;
  std::vector<std::string> values;  // NAME=VALUE
  uint32_t workers = 0;
  uint32_t workers_min = 0;
  // See JoinFlags.
  int start_fd = -1;
  int secret_fd = -1;
};

// Hidden: the process that ssh starts on the other host; see hosted_agent.h.
struct HostedFlags {
  std::string version;
};

struct StatusFlags {
  WhereFlags where;
  bool json = false;
  bool watch = false;
  bool pings = false;
  bool events = false;
  // With `events`: only those of the latest time of this length.
  absl::Duration since = absl::InfiniteDuration();
};

struct StopFlags {
  WhereFlags where;
  int exit_code = 143;
  bool now = false;
};

struct DrainFlags {
  WhereFlags where;
  std::string node;
  absl::Duration deadline = absl::InfiniteDuration();
  std::string reason;
  bool json = false;
};

struct EvictFlags {
  WhereFlags where;
  std::string node;
  std::string reason;
  bool json = false;
};

struct TokenFlags {
  enum class Verb { kCreate, kList, kRevoke, kRotate, kSecret };
  Verb verb = Verb::kList;
  WhereFlags where;
  v1::Role role = v1::ROLE_WORKER;
  absl::Duration ttl = Limits().token_ttl;
  uint32_t uses = 0;  // 0: no limit.
  std::string description;
  std::string id;
  bool cascade = false;  // Only for kRevoke.
  bool json = false;
};

struct DoctorFlags {
  // The daemon whose clock is compared with this node's clock; may be unset.
  WhereFlags where;
  // Folders that a run would write to, in addition to the agent's run folder.
  std::vector<std::string> folders;
  bool all = false;
  bool json = false;
};

struct DaemonFlags {
  TlsFlags tls;
  bool tls_bind_names = false;
  bool insecure = false;
  GivenSecrets given;
  std::string job;
  std::string state;
  std::string listen;
  HttpFlags http;
  std::string settings;  // JSON of JobSettings.
  int ready_fd = -1;
  int beat_fd = -1;
  // See JoinFlags.
  int start_fd = -1;
  // The descriptor with the shared secret; see PassSecret.
  int secret_fd = -1;
  absl::Duration token_ttl = Limits().token_ttl;
  bool resume = false;
  bool ephemeral = false;
};

struct RenderFlags {
  std::string platform;
  // See RenderOptions.
  std::map<std::string, std::string> values;
  std::vector<std::string> hosts;
  std::vector<std::string> command;
};

// The shell whose completion script is printed.
struct CompletionFlags {
  std::string shell;  // bash, zsh or fish.
};

struct VersionFlags {
  bool json = false;
};

// The command only prints this text: --help.
struct HelpText {
  std::string text;
};

using Invocation =
    std::variant<HelpText, VersionFlags, CompletionFlags, RenderFlags, RunFlags,
                 DetectFlags, LaunchFlags, SpecFlags, JoinFlags, StatusFlags,
                 StopFlags, DrainFlags, EvictFlags, TokenFlags, DoctorFlags,
                 DaemonFlags, RemoteFlags, HostedFlags, SubmitFlags>;

// Adds the secrets from the environment to `invocation`.
void Fill(Invocation& invocation, const GivenSecrets& given);

// INVALID_ARGUMENT: the message has what is wrong, and suggests a similar
// spelling.
absl::StatusOr<Invocation> ParseFlags(const Argv& args);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_FLAGS_H_
