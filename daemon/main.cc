// rollcalld: a standing daemon for many jobs.
//
// A job gathers here from the first Hello that brings --nodes. The daemon ends
// on SIGTERM or SIGINT; its jobs' ranks run on and wait for it to come back, or
// for another one that shares its state in etcd.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/base/printable.h"
#include "daemon/base/start_limits.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/network_plan/join_endpoints.h"
#include "daemon/journal/default_state.h"
#include "daemon/journal/etcd_client.h"
#include "daemon/journal/etcd_place.h"
#include "daemon/journal/etcd_tokens.h"
#include "daemon/journal/private_folder.h"
#include "daemon/journal/state_folder.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/identity.h"
#include "daemon/security/join_string.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/token.h"
#include "daemon/security/undumpable.h"
#include "daemon/security/wipe.h"
#include "daemon/server/server.h"
#include "google/protobuf/stubs/logging.h"

namespace rollcall {
namespace {

constexpr absl::Duration kEtcdPatience = absl::Seconds(10);

struct EtcdFlags {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string user;
  std::string password_file;
  // Plaintext to other machines.
  bool insecure = false;
  // Seals the values where there is no shared secret.
  std::string sealing_key_file;

  bool empty() const {
    return ca_file.empty() && cert_file.empty() && key_file.empty() &&
           user.empty() && password_file.empty() && !insecure &&
           sealing_key_file.empty();
  }
};

struct Flags {
  std::string listen = "[::]:29400";
  // A folder, or etcd://...; empty: the default.
  std::string state;
  // With etcd: where this daemon is reached, where all of them are, and where
  // join strings go.
  std::vector<std::string> advertise;
  std::vector<std::string> daemons;
  std::string join_dir;
  // With etcd: how it is spoken to.
  EtcdFlags etcd;
  std::string token_ttl;
  std::string secret_file;
  TlsFiles tls;
  bool tls_bind_names = false;
  bool insecure = false;
  std::string log_level = "info";
};

constexpr char kStateName[] = "rollcalld";

// The folder that is taken without --state, made but for its last part.
absl::StatusOr<std::string> FindDefaultState() {
  const absl::StatusOr<DefaultState> state =
      MakeDefaultState(RootsOf(ThisStateOrigin()), kStateName, {"/journal.db"});
  if (!state.ok()) return state.status();
  if (!state->notice.empty()) {
    std::fprintf(stderr, "rollcalld: %s\n", state->notice.c_str());
  }
  return state->folder;
}

// Where others reach a daemon that listens so.
std::vector<std::string> EndpointsOf(const std::string& listen, int port) {
  absl::string_view host = listen;
  host = host.substr(0, host.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return JoinEndpoints(std::string(host), port, LocalInterfaces());
}

// As EndpointsOf, or what the user said.
std::vector<std::string> Endpoints(const Flags& flags, int port) {
  if (!flags.advertise.empty()) return flags.advertise;
  const std::vector<std::string> all = EndpointsOf(flags.listen, port);
  return flags.tls.empty() ? all
                           : NamedEndpoints(all, flags.tls.cert_file, port);
}

// Holds a folder of ours. FAILED_PRECONDITION: as StateFolder::Open, or it
// belongs to a launcher, which replaces and removes what is in it.
absl::StatusOr<StateFolder> HoldFolder(const std::string& folder) {
  if (absl::Status made = MakePrivateFolder(folder, kDaemonLock); !made.ok()) {
    return made;
  }
  const std::string lock = absl::StrCat(folder, "/", kLauncherLock);
  if (access(lock.c_str(), F_OK) == 0) {
    return UnusableFolder(
        folder,
        absl::StrCat("expected rollcalld's own or a new one, got one of "
                     "`rollcall launch` (it has the file ",
                     kLauncherLock, ")"));
  }
  return StateFolder::Open(folder);
}

// The tokens kept with the state, made at the first start.
absl::StatusOr<KeptTokens> FindTokens(const std::string& folder) {
  // Held only for a moment: the server takes it up.
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
                         kWorkerJoinFile);
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
  std::string folder = flags.join_dir;
  if (folder.empty()) {
    absl::StatusOr<std::string> state = FindDefaultState();
    if (!state.ok()) return state.status();
    folder = *std::move(state);
  }
  // Made, and found to be private.
  const absl::StatusOr<StateFolder> held = HoldFolder(folder);
  if (!held.ok()) return held.status();
  return folder;
}

void Warn(const std::string& warning) {
  if (warning.empty()) return;
  std::fprintf(stderr, "rollcalld: WARNING: %s\n", warning.c_str());
}

// Combinations of the etcd flags that cannot be meant. INVALID_ARGUMENT.
absl::Status CheckEtcdFlags(const Flags& flags,
                            const std::optional<EtcdPlace>& place) {
  const EtcdFlags& etcd = flags.etcd;
  const auto unfit = [](const std::string& what) {
    return absl::InvalidArgumentError(what);
  };
  if (!place.has_value()) {
    if (etcd.empty()) return absl::OkStatus();
    return unfit("--etcd-...: these flags go with --state etcd://...");
  }
  if (etcd.cert_file.empty() != etcd.key_file.empty()) {
    return unfit("--etcd-cert and --etcd-key go together: give both");
  }
  if (!etcd.cert_file.empty() && etcd.ca_file.empty()) {
    return unfit("--etcd-cert needs --etcd-ca, by which etcd is known");
  }
  if (etcd.user.empty() != etcd.password_file.empty()) {
    return unfit("--etcd-user and --etcd-password-file go together: give both");
  }
  if (etcd.insecure && !etcd.ca_file.empty()) {
    return unfit(
        "--etcd-insecure is for an etcd without TLS: leave it or --etcd-ca "
        "out");
  }
  const int stdins = (flags.secret_file == "-") + (etcd.password_file == "-") +
                     (etcd.sealing_key_file == "-");
  if (stdins > 1) return unfit("-: stdin can be given for one file only");
  if (!etcd.ca_file.empty() || etcd.insecure) return absl::OkStatus();
  for (const std::string& endpoint : place->endpoints) {
    if (IsLoopback(endpoint)) continue;
    return unfit(absl::StrCat(
        "etcd at ", endpoint,
        ": expected TLS (--etcd-ca) for a member that is not on loopback, got "
        "none; --etcd-insecure speaks to it in plaintext all the same"));
  }
  return absl::OkStatus();
}

absl::StatusOr<EtcdAccess> AccessOf(const EtcdFlags& etcd) {
  EtcdAccess access;
  const auto read = [](const char* flag, const std::string& file, bool secret,
                       std::string& to) {
    if (file.empty()) return absl::OkStatus();
    std::string warning;
    absl::StatusOr<std::string> text =
        secret ? ReadGiven(flag, file, &warning) : ReadSecretFile(file);
    if (!text.ok()) {
      return absl::Status(
          text.status().code(),
          secret ? std::string(text.status().message())
                 : absl::StrCat(flag, ": ", text.status().message()));
    }
    Warn(warning);
    to = *std::move(text);
    return absl::OkStatus();
  };
  absl::Status status = read("--etcd-ca", etcd.ca_file, false, access.ca);
  if (status.ok()) {
    status = read("--etcd-cert", etcd.cert_file, false, access.certificate);
  }
  if (status.ok()) status = read("--etcd-key", etcd.key_file, true, access.key);
  std::string password;
  if (status.ok()) {
    status = read("--etcd-password-file", etcd.password_file, true, password);
  }
  if (!status.ok()) return status;
  access.user = etcd.user;
  access.password = std::string(absl::StripTrailingAsciiWhitespace(password));
  return access;
}

absl::StatusOr<std::optional<SharedSecret>> SealingKey(
    const std::string& file) {
  constexpr size_t kHexDigits = 64;
  if (file.empty()) return std::optional<SharedSecret>();
  std::string warning;
  absl::StatusOr<std::string> text =
      ReadGiven("--etcd-key-file", file, &warning);
  if (!text.ok()) return text.status();
  Warn(warning);
  const WipeAtEnd wiped(*text);
  absl::StatusOr<SharedSecret> key = SharedSecret::Parse(*text);
  if (key.ok() && key->Text().size() >= kHexDigits) {
    return std::optional<SharedSecret>(*std::move(key));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--etcd-key-file: ", file,
      ": expected 32 bytes in hex or base64, got something else; make one with "
      "`rollcall token secret`"));
}

absl::StatusOr<ServerOptions> OptionsOf(const Flags& flags,
                                        const GivenSecrets& given) {
  std::string warning;
  const auto secret = GivenSecret(flags.secret_file, given.secret, &warning);
  if (!secret.ok()) return secret.status();
  Warn(warning);
  const auto place = PlaceOf(flags);
  if (!place.ok()) return place.status();
  if (absl::Status fits = CheckEtcdFlags(flags, *place); !fits.ok()) {
    return fits;
  }
  ServerOptions options;
  options.listen = flags.listen;
  options.secret = *secret;
  options.tls = flags.tls;
  options.tls_bind_names = flags.tls_bind_names;
  options.insecure = flags.insecure;
  options.resume = true;
  options.log_level = LevelOf(flags.log_level);
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
  auto key = SealingKey(flags.etcd.sealing_key_file);
  if (!key.ok()) return key.status();
  options.etcd_key = *std::move(key);
  auto access = AccessOf(flags.etcd);
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

// The tokens that the daemon is started with.
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

int Serve(const Flags& flags, const GivenSecrets& given) {
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
  // A secret is the shorter way in, where there is one.
  Tell(flags, secret ? "" : *folder, (*server)->port());
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  (*server)->Shutdown();
  return 0;
}

int Main(int argc, char** argv) {
  const GivenSecrets given = TakeSecrets();
  Flags flags;
  const StateRoots roots = RootsOf(ThisStateOrigin());
  CLI::App app("rollcalld: the rendezvous daemon of rollcall, for many jobs");
  app.set_version_flag("--version", "rollcalld " ROLLCALL_VERSION);
  app.add_option("--listen", flags.listen, "ADDRESS:PORT to listen on")
      ->capture_default_str();
  app.add_option("--state", flags.state,
                 "folder of the journal, keys and tokens, 0700; or "
                 "etcd://HOST:PORT,HOST:PORT/NAME:\none state for several "
                 "daemons, of which one leads")
      ->default_str(
          absl::StrCat(roots.standard.empty() ? roots.fallback : roots.standard,
                       "/", kStateName));
  app.add_option("--advertise", flags.advertise,
                 "where others reach this daemon, HOST:PORT,... (default: its "
                 "addresses)")
      ->delimiter(',')
      ->expected(1, kJoinEndpointsMax);
  app.add_option("--daemons", flags.daemons,
                 "where all daemons of one etcd are reached, HOST:PORT,...: "
                 "for join strings")
      ->delimiter(',')
      ->expected(1, kJoinEndpointsMax);
  app.add_option("--join-dir", flags.join_dir,
                 "with etcd: folder for worker.join and admin.join, 0700");
  app.add_option("--etcd-ca", flags.etcd.ca_file,
                 "CA of etcd's members, PEM: speaks TLS to them; without it "
                 "they must be\non loopback");
  app.add_option("--etcd-cert", flags.etcd.cert_file,
                 "certificate to show to etcd, PEM");
  app.add_option("--etcd-key", flags.etcd.key_file, "its key, PEM, 0600");
  app.add_option("--etcd-user", flags.etcd.user,
                 "user of etcd's authentication");
  app.add_option("--etcd-password-file", flags.etcd.password_file,
                 "file with that user's password, 0600; -: stdin");
  app.add_flag("--etcd-insecure", flags.etcd.insecure,
               "plaintext to members that are not on loopback");
  app.add_option("--etcd-key-file", flags.etcd.sealing_key_file,
                 "file with the key that seals the values in etcd, 0600; -: "
                 "stdin; the same for\nall daemons, and only without a shared "
                 "secret");
  app.add_option("--token-ttl", flags.token_ttl,
                 "how long worker.join is valid; it is replaced at half of "
                 "that (default 24h;\nnever: no end, no replacement)");
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
  app.add_flag("--tls-bind-names", flags.tls_bind_names,
               "an agent's node name must be a DNS name of the certificate "
               "that it shows");
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
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      // Most often a variable that was not set: the default is not meant.
      return Fail(absl::InvalidArgumentError(absl::StrCat(
          option->get_name(),
          ": expected a value, got an empty one; is the "
          "variable that it comes from set? Leave the flag out for its "
          "default")));
    }
  }
  if (flags.state.empty()) {
    absl::StatusOr<std::string> state = FindDefaultState();
    if (!state.ok()) return Fail(state.status());
    flags.state = *std::move(state);
  }
  return Serve(flags, given);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  rollcall::MakeUndumpable();
  // gRPC's own prints are for its developers; who wants them sets it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // Its traces print tokens.
  unsetenv("GRPC_TRACE");
  // protobuf prints a line for each message that does not parse, and anyone who
  // reaches the port can send those.
  google::protobuf::SetLogHandler(nullptr);
  const int code = rollcall::Main(argc, argv);
  std::fflush(stdout);
  // Static destructors race with gRPC's threads: OpenSSL's tears down what a
  // TLS handshake with an etcd member that does not answer still uses.
  _exit(code);
}
