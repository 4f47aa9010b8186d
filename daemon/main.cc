// rollcalld: a standing daemon for many jobs.
//
// A job gathers here from the first Hello that brings --nodes. The daemon ends
// on SIGTERM or SIGINT; its jobs' ranks run on and wait for it to come back.
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
#include "daemon/core/admission.h"
#include "daemon/core/exit_codes.h"
#include "daemon/journal/state_folder.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/identity.h"
#include "daemon/security/join_string.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/server/server.h"

namespace rollcall {
namespace {

// A join string with more does not fit a terminal, and nobody tries them all.
constexpr size_t kEndpointsMax = 8;

struct Flags {
  std::string listen = "[::]:29400";
  std::string state;
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
std::vector<std::string> Endpoints(const std::string& listen, int port) {
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

// `worker.join` and `admin.join` in the state folder: for who may read it, and
// not for a log.
absl::Status WriteJoinStrings(const Flags& flags, const KeptTokens& tokens,
                              const Server& server) {
  v1::JoinString join;
  std::vector<std::string> endpoints = Endpoints(flags.listen, server.port());
  if (!flags.tls.empty()) {
    endpoints = NamedEndpoints(endpoints, flags.tls.cert_file, server.port());
  }
  join.mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  join.set_ca_pin(server.pin());
  join.set_insecure(flags.insecure);
  *join.mutable_token() = tokens.worker;
  absl::Status wrote =
      WriteSecretFile(absl::StrCat(flags.state, "/worker.join"),
                      absl::StrCat(EncodeJoinString(join), "\n"));
  if (!wrote.ok()) return wrote;
  *join.mutable_token() = tokens.admin;
  return WriteSecretFile(absl::StrCat(flags.state, "/admin.join"),
                         absl::StrCat(EncodeJoinString(join), "\n"));
}

// The tokens kept with the state, made at the first start.
absl::StatusOr<KeptTokens> FindTokens(const Flags& flags) {
  // Held only for a moment: the server takes it up.
  const absl::StatusOr<StateFolder> folder = StateFolder::Open(flags.state);
  if (!folder.ok()) return folder.status();
  return KeptTokens::Keep(flags.state);
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

void Tell(const Flags& flags, bool secret, int port) {
  if (flags.insecure) {
    std::fprintf(
        stderr,
        "rollcalld: WARNING: --insecure: everybody on this machine can "
        "read along and take part\n");
  }
  const std::string how =
      secret ? absl::StrCat("--endpoint HOST:", port,
                            " --secret-file FILE --job JOB --nodes N -- CMD...")
             : absl::StrCat("- --job JOB --nodes N -- CMD... <", flags.state,
                            "/worker.join");
  std::fprintf(stderr,
               "rollcalld: listening on port %d, state in %s\n"
               "rollcalld: join with: rollcall join %s\n",
               port, flags.state.c_str(), how.c_str());
}

int Serve(const Flags& flags, const GivenSecrets& given) {
  // Before any thread is there, so that all of them leave these to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const auto secret = GivenSecret(flags.secret_file, given.secret);
  if (!secret.ok()) return Fail(secret.status());
  const absl::StatusOr<KeptTokens> tokens = FindTokens(flags);
  if (!tokens.ok()) return Fail(tokens.status());
  ServerOptions options;
  options.listen = flags.listen;
  options.state_dir = flags.state;
  options.tokens = tokens->Seeds(*secret);
  options.secret = *secret;
  options.tls = flags.tls;
  options.insecure = flags.insecure;
  options.resume = true;
  options.log_level = LevelOf(flags.log_level);
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(std::move(options));
  if (!server.ok()) return Fail(server.status());
  const absl::Status wrote = WriteJoinStrings(flags, *tokens, **server);
  if (!wrote.ok()) return Fail(wrote);
  Tell(flags, secret->has_value(), (*server)->port());
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
                 "folder of the journal, keys and tokens, 0700")
      ->capture_default_str();
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
