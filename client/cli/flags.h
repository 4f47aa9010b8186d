// Flags: the grammar of the command line, as values.
//
// Pure: nothing is read but the words. What a value means on this machine
// (`--nproc-per-node auto`, a job's state folder) is the commands' business.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/words.h"
#include "daemon/core/limits.h"
#include "daemon/security/given_secrets.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// What one agent does on its node.
struct LocalFlags {
  std::string name;  // Empty: the hostname.
  std::string nproc_per_node = "1";
  std::string log_dir;
  // Further folders that the ranks write to, such as that of checkpoints.
  std::vector<std::string> folders;
  std::string hosts_file = "/etc/hosts";
  bool no_hosts = false;
  // Node names that the hosts file gets whatever they mean elsewhere.
  std::vector<std::string> hosts_names;
  bool once = false;
  bool json = false;
  std::string nccl_lib;
  // all, needed or none; see NcclEnv.
  std::string nccl_env = "needed";
  // Hidden, for tests: where this node's devices are looked for, and the
  // libraries that tell of them; see DeviceFactsOptions.
  std::string sysroot;
  std::string verbs_lib;
  std::string nvml_lib;
  // What plain ranks get when they are to save and stop.
  int preempt_signal = 15;
};

// Files of the user's own PKI.
struct TlsFlags {
  std::string ca;
  std::string cert;
  std::string key;
};

// Which job, and how to get at it.
struct WhereFlags {
  std::string join_string;
  std::string endpoint;
  std::string job;
  std::string secret_file;
  TlsFlags tls;
  // The name in the daemon's certificate, where it is not the endpoint's host.
  std::string tls_server_name;
  std::string state;
  // Of the environment.
  GivenSecrets given;
};

struct LaunchFlags {
  LocalFlags local;
  std::string job;
  std::string listen;  // Empty: all addresses; see launch.cc.
  uint32_t local_workers = 0;
  // A secret that was made before, so that all specs may hold it before the
  // launcher starts; empty: the daemon makes a CA and tokens of its own.
  std::string secret_file;
  TlsFlags tls;
  // Node names must be those of the agents' certificates.
  bool tls_bind_names = false;
  bool insecure = false;
  GivenSecrets given;
  std::string state;
  // Of the join string; infinite: no end.
  absl::Duration token_ttl = Limits().token_ttl;
  bool no_worker = false;
  // Unset but for what was given; nodes are always set.
  v1::JobSettings settings;
  std::vector<std::string> command;
};

struct JoinFlags {
  LocalFlags local;
  WhereFlags where;
  // For a job that a standing daemon is to make; unset but for what was given.
  v1::JobSettings settings;
  std::string join_timeout;
  std::vector<std::string> command;
  // Of the hidden command `agent` only: started by a launcher, as its own.
  bool started_by_launcher = false;
  bool launcher = false;
  // See StartGate; -1: nothing holds it back.
  int start_fd = -1;
  // Where the join string comes from; see PassSecret.
  int secret_fd = -1;
};

struct StatusFlags {
  WhereFlags where;
  bool json = false;
  bool watch = false;
  bool pings = false;
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
  uint32_t uses = 0;  // 0: no bound.
  std::string description;
  std::string id;
  bool cascade = false;  // Of kRevoke.
  bool json = false;
};

struct DoctorFlags {
  // The daemon whose clock this node's is compared with; may be nowhere.
  WhereFlags where;
  // Folders that a run would write to, beside its own.
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
  std::string settings;  // JSON of JobSettings.
  int ready_fd = -1;
  int beat_fd = -1;
  // As JoinFlags has it.
  int start_fd = -1;
  // Where the shared secret comes from; see PassSecret.
  int secret_fd = -1;
  absl::Duration token_ttl = Limits().token_ttl;
  bool resume = false;
  bool ephemeral = false;
};

struct VersionFlags {
  bool json = false;
};

// Something to print, and done: --help.
struct HelpText {
  std::string text;
};

using Invocation = std::variant<HelpText, VersionFlags, LaunchFlags, JoinFlags,
                                StatusFlags, StopFlags, DrainFlags, EvictFlags,
                                TokenFlags, DoctorFlags, DaemonFlags>;

// Adds what the environment has given.
void Fill(Invocation& invocation, const GivenSecrets& given);

// INVALID_ARGUMENT: what is wrong, and the right spelling where one is near.
absl::StatusOr<Invocation> ParseFlags(const Words& words);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_H_
