// rollcalld: a standing daemon for many jobs.
//
// A job gathers here from the first Hello that brings --nodes. The daemon ends
// on SIGTERM or SIGINT; its jobs' ranks run on and wait for it to come back, or
// for another one that shares its state in etcd.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/admission.h"
#include "daemon/core/exit_codes.h"
#include "daemon/journal/etcd_client.h"
#include "daemon/journal/etcd_journal.h"
#include "daemon/journal/etcd_place.h"
#include "daemon/journal/state_folder.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/identity.h"
#include "daemon/security/join_string.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/token.h"
#include "daemon/server/server.h"

namespace rollcall {
namespace {

// A join string with more does not fit a terminal, and nobody tries them all.
constexpr size_t kEndpointsMax = 8;
constexpr absl::Duration kEtcdPatience = absl::Seconds(10);

struct Flags {
  std::string listen = "[::]:29400";
  // A folder, or etcd://...
  std::string state;
  // With etcd: where this daemon is reached, where all of them are, and where
  // join strings go.
  std::vector<std::string> advertise;
  std::vector<std::string> daemons;
  std::string join_dir;
  std::string secret_file;
  TlsFiles tls;
  bool insecure = false;
  std::string log_level = "info";
};

// $XDG_STATE_HOME/rollcall/rollcalld, or the same under ~/.local/state.
std::string DefaultState() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') {
    return absl::StrCat(state, "/rollcall/rollcalld");
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr && home[0] == '/' ? home : "/root",
                      "/.local/state/rollcall/rollcalld");
}

// Where others reach a daemon that listens so.
std::vector<std::string> EndpointsOf(const std::string& listen, int port) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  if (host != "[::]" && host != "0.0.0.0") {
    return {absl::StrCat(host, ":", port)};
  }
  std::vector<std::string> endpoints;
  for (const std::string& name : LocalNames()) {
    const bool six = name.find(':') != std::string::npos;
    if (IsLoopback(name) || !AdmitAddress(name).ok()) continue;
    // Without its zone a link's own address leads nowhere.
    if (name.rfind("fe80:", 0) == 0 || name.rfind("169.254.", 0) == 0) continue;
    if (six && host == "0.0.0.0") continue;
    endpoints.push_back(six ? absl::StrCat("[", name, "]:", port)
                            : absl::StrCat(name, ":", port));
    if (endpoints.size() == kEndpointsMax) break;
  }
  if (endpoints.empty()) endpoints.push_back(absl::StrCat("127.0.0.1:", port));
  return endpoints;
}

// As EndpointsOf, or what the user said.
std::vector<std::string> Endpoints(const Flags& flags, int port) {
  if (!flags.advertise.empty()) return flags.advertise;
  const std::vector<std::string> all = EndpointsOf(flags.listen, port);
  return flags.tls.empty() ? all
                           : NamedEndpoints(all, flags.tls.cert_file, port);
}

// `worker.join` and `admin.join` in `folder`: for who may read it, and not for
// a log.
absl::Status WriteJoinStrings(const Flags& flags, const std::string& folder,
                              const KeptTokens& tokens, const Server& server) {
  v1::JoinString join;
  const std::vector<std::string> endpoints =
      flags.daemons.empty() ? Endpoints(flags, server.port()) : flags.daemons;
  join.mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  join.set_ca_pin(server.pin());
  join.set_insecure(flags.insecure);
  *join.mutable_token() = tokens.worker;
  absl::Status wrote =
      WriteSecretFile(absl::StrCat(folder, "/worker.join"),
                      absl::StrCat(EncodeJoinString(join), "\n"));
  if (!wrote.ok()) return wrote;
  *join.mutable_token() = tokens.admin;
  return WriteSecretFile(absl::StrCat(folder, "/admin.join"),
                         absl::StrCat(EncodeJoinString(join), "\n"));
}

// The tokens kept with the state, made at the first start.
absl::StatusOr<KeptTokens> FindTokens(const std::string& folder) {
  // Held only for a moment: the server takes it up.
  const absl::StatusOr<StateFolder> held = StateFolder::Open(folder);
  if (!held.ok()) return held.status();
  return KeptTokens::Keep(folder);
}

// The one that all daemons of this name share, made by the first of them.
absl::StatusOr<v1::JoinToken> TokenInEtcd(EtcdClient& client,
                                          const std::string& key) {
  const auto text =
      KeepInEtcd(client, key, TokenText(MakeToken()), kEtcdPatience);
  if (!text.ok()) return text.status();
  auto token = ParseTokenText(*text);
  if (token.ok()) return token;
  return absl::FailedPreconditionError(absl::StrCat(
      "etcd, ", key, ": ", token.status().message(),
      "; remove the key (etcdctl del), and another token is made"));
}

// With a secret all know the tokens; without, they lie in etcd.
absl::StatusOr<KeptTokens> SharedTokens(
    const EtcdPlace& place, const std::optional<SharedSecret>& secret) {
  if (secret.has_value()) {
    return KeptTokens{secret->Token(v1::ROLE_ADMIN),
                      secret->Token(v1::ROLE_WORKER)};
  }
  EtcdClient client(place.endpoints);
  auto admin = TokenInEtcd(client, place.Prefix() + "admin.token");
  if (!admin.ok()) return admin.status();
  auto worker = TokenInEtcd(client, place.Prefix() + "worker.token");
  if (!worker.ok()) return worker.status();
  return KeptTokens{*std::move(admin), *std::move(worker)};
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

void Tell(const Flags& flags, const std::string& join_folder, int port) {
  if (flags.insecure) {
    std::fprintf(
        stderr,
        "rollcalld: WARNING: --insecure: everybody on this machine can "
        "read along and take part\n");
  }
  const std::string how =
      join_folder.empty()
          ? absl::StrCat("--endpoint ",
                         flags.daemons.empty()
                             ? absl::StrCat("HOST:", port)
                             : absl::StrJoin(flags.daemons, ","),
                         " --secret-file FILE --job JOB --nodes N -- CMD...")
          : absl::StrCat("- --job JOB --nodes N -- CMD... <", join_folder,
                         "/worker.join");
  std::fprintf(stderr,
               "rollcalld: listening on port %d, state in %s\n"
               "rollcalld: join with: rollcall join %s\n",
               port, flags.state.c_str(), how.c_str());
}

// Before any thread is there, so that all of them leave these to sigwait.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

absl::Status CheckEndpoints(const char* flag,
                            const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    if (IsEndpoint(endpoint)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": expected HOST:PORT, got '", Printable(endpoint, 256), "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<EtcdPlace>> PlaceOf(const Flags& flags) {
  absl::Status fits = CheckEndpoints("--advertise", flags.advertise);
  if (fits.ok()) fits = CheckEndpoints("--daemons", flags.daemons);
  if (!fits.ok()) return fits;
  if (EtcdPlace::Means(flags.state)) {
    auto place = EtcdPlace::Parse(flags.state);
    if (!place.ok()) return place.status();
    return std::optional<EtcdPlace>(*std::move(place));
  }
  if (!flags.join_dir.empty()) {
    return absl::InvalidArgumentError(
        "--join-dir goes with --state etcd://...; a state folder has the join "
        "strings itself");
  }
  return std::optional<EtcdPlace>();
}

// Where join strings go; empty: nowhere, since a secret says it all.
absl::StatusOr<std::string> JoinFolder(const Flags& flags, bool etcd,
                                       bool secret) {
  if (!etcd) return flags.state;
  if (secret && flags.join_dir.empty()) return std::string();
  const std::string folder =
      flags.join_dir.empty() ? DefaultState() : flags.join_dir;
  // Made, and found to be private.
  const absl::StatusOr<StateFolder> held = StateFolder::Open(folder);
  if (!held.ok()) return held.status();
  return folder;
}

int Serve(const Flags& flags, const GivenSecrets& given) {
  const sigset_t signals = BlockSignals();
  const auto secret = GivenSecret(flags.secret_file, given.secret);
  if (!secret.ok()) return Fail(secret.status());
  const auto place = PlaceOf(flags);
  if (!place.ok()) return Fail(place.status());
  ServerOptions options;
  options.listen = flags.listen;
  options.secret = *secret;
  options.tls = flags.tls;
  options.insecure = flags.insecure;
  options.resume = true;
  options.log_level = LevelOf(flags.log_level);
  options.etcd = *place;
  options.endpoints = [&flags](int port) { return Endpoints(flags, port); };
  if (!place->has_value()) options.state_dir = flags.state;
  if (absl::Status fits = CheckShared(options); !fits.ok()) return Fail(fits);
  const absl::StatusOr<KeptTokens> tokens = place->has_value()
                                                ? SharedTokens(**place, *secret)
                                                : FindTokens(flags.state);
  if (!tokens.ok()) return Fail(tokens.status());
  options.tokens = tokens->Seeds(*secret);
  const auto folder =
      JoinFolder(flags, place->has_value(), secret->has_value());
  if (!folder.ok()) return Fail(folder.status());
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(std::move(options));
  if (!server.ok()) return Fail(server.status());
  if (!folder->empty()) {
    const absl::Status wrote =
        WriteJoinStrings(flags, *folder, *tokens, **server);
    if (!wrote.ok()) return Fail(wrote);
  }
  // A secret is the shorter way in, where there is one.
  Tell(flags, secret->has_value() ? "" : *folder, (*server)->port());
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  (*server)->Shutdown();
  return 0;
}

int Main(int argc, char** argv) {
  const GivenSecrets given = TakeSecrets();
  Flags flags;
  flags.state = DefaultState();
  CLI::App app("rollcalld: the rendezvous daemon of rollcall, for many jobs");
  app.set_version_flag("--version", "rollcalld " ROLLCALL_VERSION);
  app.add_option("--listen", flags.listen, "ADDRESS:PORT to listen on")
      ->capture_default_str();
  app.add_option("--state", flags.state,
                 "folder of the journal, keys and tokens, 0700; or "
                 "etcd://HOST:PORT,HOST:PORT/NAME:\none state for several "
                 "daemons, of which one leads")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise,
                 "where others reach this daemon, HOST:PORT,... (default: its "
                 "addresses)")
      ->delimiter(',')
      ->expected(1, kEndpointsMax);
  app.add_option("--daemons", flags.daemons,
                 "where all daemons of one etcd are reached, HOST:PORT,...: "
                 "for join strings")
      ->delimiter(',')
      ->expected(1, kEndpointsMax);
  app.add_option("--join-dir", flags.join_dir,
                 "with etcd: folder for worker.join and admin.join, 0700");
  auto* secret =
      app.add_option("--secret-file", flags.secret_file,
                     "file with a secret that all nodes hold; -: stdin (or "
                     "ROLLCALL_SECRET; default: a CA and tokens of its own, "
                     "kept in STATE)");
  app.add_option("--tls-cert", flags.tls.cert_file,
                 "certificate of your own PKI, PEM");
  app.add_option("--tls-key", flags.tls.key_file, "its key, PEM");
  app.add_option("--tls-ca", flags.tls.ca_file,
                 "CA whose certificates callers must show, PEM");
  app.add_flag("--insecure", flags.insecure,
               "no TLS: on loopback, for trying things out")
      ->excludes(secret);
  app.add_option("--log-level", flags.log_level, "what is logged to stderr")
      ->check(CLI::IsMember({"info", "warning", "error"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return Serve(flags, given);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  // gRPC's own prints are for its developers; who wants them sets it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // Its traces print tokens.
  unsetenv("GRPC_TRACE");
  return rollcall::Main(argc, argv);
}
