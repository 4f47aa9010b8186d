// rollcalld: a standing daemon for many jobs.
//
// The first Hello with --nodes creates a job. The daemon exits on SIGTERM or
// SIGINT; the ranks of its jobs continue, and their agents wait until it is
// started again or until another daemon with the same state in etcd leads.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/base/processes/service_notifier.h"
#include "daemon/base/processes/start_limits.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/network_plan/join_endpoints.h"
#include "daemon/daemon_flags.h"
#include "daemon/etcd_access.h"
#include "daemon/journal/default_state.h"
#include "daemon/journal/etcd/etcd_client.h"
#include "daemon/journal/etcd/etcd_tokens.h"
#include "daemon/journal/private_folder.h"
#include "daemon/journal/state_folder.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/crypto/undumpable.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/join_string.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/server.h"
#include "google/protobuf/stubs/logging.h"

namespace rollcall {
namespace {

constexpr absl::Duration kEtcdPatience = absl::Seconds(10);

// The state folder if --state is not given. Creates its parents, but not the
// folder itself.
absl::StatusOr<std::string> FindDefaultState() {
  const absl::StatusOr<DefaultState> state =
      MakeDefaultState(RootsOf(ThisStateOrigin()), kStateName, {"/journal.db"});
  if (!state.ok()) return state.status();
  if (!state->notice.empty()) {
    std::fprintf(stderr, "rollcalld: %s\n", state->notice.c_str());
  }
  return state->folder;
}

// The endpoints of a daemon that listens on `listen`, made from the addresses
// of this machine.
std::vector<std::string> EndpointsOf(const std::string& listen, int port) {
  absl::string_view host = listen;
  host = host.substr(0, host.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return JoinEndpoints(std::string(host), port, LocalInterfaces());
}

// Returns --advertise if it is given. Otherwise returns EndpointsOf, with the
// names of the certificate if one is given.
std::vector<std::string> Endpoints(const DaemonFlags& flags, int port) {
  if (!flags.advertise.empty()) return flags.advertise;
  const std::vector<std::string> all = EndpointsOf(flags.listen, port);
  return flags.tls.empty() ? all
                           : NamedEndpoints(all, flags.tls.cert_file, port);
}

// Creates and locks a folder of rollcalld. FAILED_PRECONDITION: as
// StateFolder::Open, or the folder belongs to a launcher, which would replace
// and remove files in it.
absl::StatusOr<StateFolder> HoldFolder(const std::string& folder) {
  if (absl::Status made = MakePrivateFolder(folder, kDaemonLock); !made.ok()) {
    return made;
  }
  const std::string lock = absl::StrCat(folder, "/", kLauncherLock);
  if (access(lock.c_str(), F_OK) == 0) {
    return UnusableFolder(
        folder,
        absl::StrCat("expected a new folder or one of rollcalld, got one of "
                     "`rollcall launch` (it contains the file ",
                     kLauncherLock, ")"));
  }
  return StateFolder::Open(folder);
}

// The tokens in the state folder; the first start creates them.
absl::StatusOr<KeptTokens> FindTokens(const std::string& folder) {
  // The folder is locked only until this function returns, because the server
  // locks it again.
  const absl::StatusOr<StateFolder> held = HoldFolder(folder);
  if (!held.ok()) return held.status();
  return KeptTokens::Keep(folder);
}

Log::Level LevelOf(const std::string& name) {
  if (name == "warning") return Log::Level::kWarning;
  if (name == "error") return Log::Level::kError;
  return Log::Level::kInfo;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "rollcalld: %s\n",
               std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitRendezvous;
}

// Prints where it listens and how to join.
void PrintListening(const DaemonFlags& flags, const std::string& join_folder,
                    int port) {
  if (flags.insecure) {
    std::fprintf(
        stderr,
        "rollcalld: WARNING: --insecure: every user of this machine can read "
        "the traffic and join jobs\n");
  }
  const std::string how =
      join_folder.empty()
          ? absl::StrCat("--endpoint ",
                         flags.daemons.empty()
                             ? absl::StrCat("HOST:", port)
                             : absl::StrJoin(flags.daemons, ","),
                         " --secret-file FILE --job JOB --nodes N -- CMD...")
          : absl::StrCat("- --job JOB --nodes N -- CMD... <", join_folder,
                         kWorkerJoinFile);
  std::fprintf(stderr,
               "rollcalld: listening on port %d, state in %s\n"
               "rollcalld: join with: rollcall join %s\n",
               port, flags.state.c_str(), how.c_str());
}

void PrintHttp(const DaemonFlags& flags, const Server& server) {
  if (flags.http.empty()) return;
  if (flags.http_insecure) {
    std::fprintf(stderr,
                 "rollcalld: WARNING: --http-insecure: who can read the "
                 "traffic to --http can use the tokens in it\n");
  }
  std::fprintf(stderr, "rollcalld: status page: %s\n",
               server.http_url().c_str());
}

// Blocks the signals that sigwait waits for. Call this before any thread
// starts, because threads inherit the mask.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// The folder for join strings; empty: none, since the shared secret replaces
// them.
absl::StatusOr<std::string> JoinFolder(const DaemonFlags& flags, bool etcd,
                                       bool secret) {
  if (!etcd) return flags.state;
  if (secret && flags.join_dir.empty()) return std::string();
  std::string folder = flags.join_dir;
  if (folder.empty()) {
    absl::StatusOr<std::string> state = FindDefaultState();
    if (!state.ok()) return state.status();
    folder = *std::move(state);
  }
  // Creates the folder, and checks that it is private.
  const absl::StatusOr<StateFolder> held = HoldFolder(folder);
  if (!held.ok()) return held.status();
  return folder;
}

void Warn(const std::string& warning) {
  if (warning.empty()) return;
  std::fprintf(stderr, "rollcalld: WARNING: %s\n", warning.c_str());
}

absl::StatusOr<ServerOptions> OptionsOf(const DaemonFlags& flags,
                                        const GivenSecrets& given) {
  std::string warning;
  const auto secret = GivenSecret(flags.secret_file, given.secret, &warning);
  if (!secret.ok()) return secret.status();
  Warn(warning);
  const auto place = PlaceOf(flags);
  if (!place.ok()) return place.status();
  ServerOptions options;
  options.listen = flags.listen;
  options.secret = *secret;
  options.tls = flags.tls;
  options.tls_bind_names = flags.tls_bind_names;
  options.insecure = flags.insecure;
  options.http = flags.http;
  options.http_insecure = flags.http_insecure;
  options.resume = true;
  options.log_level = LevelOf(flags.log_level);
  if (flags.log_format == "json") options.log_format = LogFormat::kJson;
  options.etcd = *place;
  options.endpoints = [&flags](int port) { return Endpoints(flags, port); };
  if (!flags.token_ttl.empty()) {
    const auto ttl = ParseTokenTtl("--token-ttl", flags.token_ttl);
    if (!ttl.ok()) return ttl.status();
    options.token_ttl = *ttl;
  }
  if (!flags.tls.key_file.empty()) {
    warning.clear();
    absl::Status fits = CheckPrivateFile(flags.tls.key_file, &warning);
    if (!fits.ok()) return fits;
    Warn(warning);
  }
  if (!place->has_value()) {
    options.state_dir = flags.state;
    return options;
  }
  auto key = ReadSealingKey(flags.etcd.sealing_key_file, Warn);
  if (!key.ok()) return key.status();
  options.etcd_key = *std::move(key);
  auto access = ReadEtcdAccess(flags.etcd, Warn);
  if (!access.ok()) return access.status();
  options.etcd_access = *std::move(access);
  options.tokens_in_etcd = !secret->has_value();
  if (flags.etcd.insecure) {
    Warn(
        "--etcd-insecure: a host on the network path to etcd can see the etcd "
        "user's password and the names of the keys, and delete or replay "
        "values; the values themselves are sealed");
  }
  return options;
}

// The tokens that the daemon starts with.
absl::StatusOr<KeptTokens> TokensOf(const ServerOptions& options) {
  if (!options.etcd.has_value()) return FindTokens(options.state_dir);
  if (options.secret.has_value()) {
    return KeptTokens{options.secret->Token(v1::ROLE_ADMIN),
                      options.secret->Token(v1::ROLE_WORKER)};
  }
  EtcdAccess access = options.etcd_access;
  access.endpoints = options.etcd->endpoints;
  EtcdClient client(std::move(access));
  return KeepTokensInEtcd(client, ValueSealer(*options.etcd_key),
                          options.etcd->Prefix(), /*make=*/true, kEtcdPatience);
}

// FAILED_PRECONDITION: systemd's watchdog is set, and the state is in etcd.
// There a daemon that does not lead has no loop that could show that the daemon
// is alive.
absl::Status CheckWatchdog(const ServiceNotifier& service, bool etcd) {
  if (!service.has_watchdog() || !etcd) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "WatchdogSec= in its unit: expected none with --state etcd://, since "
      "another daemon takes over from one that does not answer; remove it");
}

int Serve(const DaemonFlags& flags, const GivenSecrets& given,
          const ServiceNotifier& service) {
  if (absl::Status status = CheckStartLimits(); !status.ok()) {
    Fail(status);
    return kExitCannotStart;
  }
  const sigset_t signals = BlockSignals();
  auto read = OptionsOf(flags, given);
  if (!read.ok()) return Fail(read.status());
  ServerOptions options = *std::move(read);
  if (absl::Status fits = CheckShared(options); !fits.ok()) return Fail(fits);
  const bool etcd = options.etcd.has_value();
  const bool secret = options.secret.has_value();
  if (absl::Status fits = CheckWatchdog(service, etcd); !fits.ok()) {
    return Fail(fits);
  }
  if (service.has_watchdog()) {
    options.beat = [&service] { service.Tell("WATCHDOG=1"); };
  }
  const absl::StatusOr<KeptTokens> tokens = TokensOf(options);
  if (!tokens.ok()) return Fail(tokens.status());
  options.tokens = tokens->Seeds(options.secret, options.token_ttl);
  const auto folder = JoinFolder(flags, etcd, secret);
  if (!folder.ok()) return Fail(folder.status());
  v1::JoinString join;
  join.set_insecure(flags.insecure);
  JoinFiles join_files(*folder, std::move(join));
  options.listening = [&](int port, const std::string& pin) {
    join_files.Listening(
        flags.daemons.empty() ? Endpoints(flags, port) : flags.daemons, pin);
    absl::Status wrote = join_files.Write(v1::ROLE_WORKER, tokens->worker);
    return wrote.ok() ? join_files.Write(v1::ROLE_ADMIN, tokens->admin) : wrote;
  };
  options.keep_token = [&join_files, etcd, state = options.state_dir](
                           v1::Role role, const v1::JoinToken& token) {
    const absl::Status wrote =
        etcd ? absl::OkStatus() : WriteKeptToken(state, role, token);
    return wrote.ok() ? join_files.Write(role, token) : wrote;
  };
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(std::move(options));
  if (!server.ok()) return Fail(server.status());
  // With a shared secret, the file of that secret is enough to join.
  PrintListening(flags, secret ? "" : *folder, (*server)->port());
  PrintHttp(flags, **server);
  service.Tell(
      absl::StrCat("READY=1\nSTATUS=listening on port ", (*server)->port()));
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  service.Tell("STOPPING=1");
  (*server)->Shutdown();
  return 0;
}

int Main(int argc, char** argv) {
  const GivenSecrets given = TakeSecrets();
  const auto service = ServiceNotifier::FromEnvironment();
  DaemonFlags flags;
  if (const std::optional<int> code = ParseDaemonFlags(argc, argv, flags)) {
    return *code;
  }
  if (!service.ok()) return Fail(service.status());
  if (flags.state.empty()) {
    absl::StatusOr<std::string> state = FindDefaultState();
    if (!state.ok()) return Fail(state.status());
    flags.state = *std::move(state);
  }
  return Serve(flags, given, *service);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  rollcall::MakeUndumpable();
  // gRPC's own log lines are for its developers. A user can set the variable to
  // see them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // gRPC's traces contain tokens.
  unsetenv("GRPC_TRACE");
  // protobuf would print a line for each message that does not parse, and every
  // client that reaches the port can send such messages.
  google::protobuf::SetLogHandler(nullptr);
  const int code = rollcall::Main(argc, argv);
  std::fflush(stdout);
  // exit() would run static destructors, which race with gRPC's threads: a TLS
  // handshake with an etcd member that does not answer still uses what
  // OpenSSL's destructor frees.
  _exit(code);
}
