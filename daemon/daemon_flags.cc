#include "daemon/daemon_flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/exit_codes.h"
#include "daemon/core/network_plan/join_endpoints.h"
#include "daemon/journal/default_state.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

absl::Status CheckEndpoints(const char* flag,
                            const std::vector<std::string>& endpoints) {
  for (const std::string& endpoint : endpoints) {
    if (IsEndpoint(endpoint)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        flag, ": expected HOST:PORT, got '", Printable(endpoint, 256), "'"));
  }
  return absl::OkStatus();
}

// INVALID_ARGUMENT: the etcd flags contradict each other, or one is missing.
absl::Status CheckEtcdFlags(const DaemonFlags& flags,
                            const std::optional<EtcdLocation>& place) {
  const EtcdFlags& etcd = flags.etcd;
  const auto unfit = [](const std::string& what) {
    return absl::InvalidArgumentError(what);
  };
  if (!place.has_value()) {
    if (etcd.empty()) return absl::OkStatus();
    return unfit("--etcd-...: these flags need --state etcd://...");
  }
  if (etcd.cert_file.empty() != etcd.key_file.empty()) {
    return unfit("--etcd-cert and --etcd-key: expected both or neither");
  }
  if (!etcd.cert_file.empty() && etcd.ca_file.empty()) {
    return unfit(
        "--etcd-cert needs --etcd-ca, which verifies etcd's own certificate");
  }
  if (etcd.user.empty() != etcd.password_file.empty()) {
    return unfit(
        "--etcd-user and --etcd-password-file: expected both or neither");
  }
  if (etcd.insecure && !etcd.ca_file.empty()) {
    return unfit(
        "--etcd-insecure is for an etcd without TLS, and --etcd-ca for one "
        "with TLS: omit one of them");
  }
  const int stdins = (flags.secret_file == "-") + (etcd.password_file == "-") +
                     (etcd.sealing_key_file == "-");
  if (stdins > 1) return unfit("-: only one file can be read from stdin");
  if (!etcd.ca_file.empty() || etcd.insecure) return absl::OkStatus();
  for (const std::string& endpoint : place->endpoints) {
    if (IsLoopback(endpoint)) continue;
    return unfit(absl::StrCat(
        "etcd at ", endpoint,
        ": expected TLS (--etcd-ca) for a member that is not on loopback, got "
        "none; --etcd-insecure allows plaintext"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<EtcdLocation>> PlaceOf(const DaemonFlags& flags) {
  absl::Status fits = CheckEndpoints("--advertise", flags.advertise);
  if (fits.ok()) fits = CheckEndpoints("--daemons", flags.daemons);
  if (!fits.ok()) return fits;
  std::optional<EtcdLocation> place;
  if (EtcdLocation::Means(flags.state)) {
    auto parsed = EtcdLocation::Parse(flags.state);
    if (!parsed.ok()) return parsed.status();
    place = *std::move(parsed);
  } else if (!flags.join_dir.empty()) {
    return absl::InvalidArgumentError(
        "--join-dir needs --state etcd://...; a state folder contains the join "
        "strings itself");
  }
  fits = CheckEtcdFlags(flags, place);
  if (!fits.ok()) return fits;
  return place;
}

std::optional<int> ParseDaemonFlags(int argc, char** argv, DaemonFlags& flags) {
  const StateRoots roots = RootsOf(ThisStateOrigin());
  CLI::App app("rollcalld: the rendezvous daemon of rollcall, for many jobs");
  app.set_version_flag("--version", "rollcalld " ROLLCALL_VERSION);
  app.add_option("--listen", flags.listen, "ADDRESS:PORT to listen on")
      ->capture_default_str();
  app.add_option("--http", flags.http,
                 "ADDRESS:PORT of the status page, /metrics and /status.json "
                 "(default: none; port 0:\na free one); beyond loopback with "
                 "TLS and a viewer's token");
  app.add_flag("--http-insecure", flags.http_insecure,
               "allow plain HTTP beyond loopback: the token can be read on its "
               "way");
  app.add_option("--state", flags.state,
                 "folder for the journal, keys and tokens, 0700; or "
                 "etcd://HOST:PORT,HOST:PORT/NAME:\nseveral daemons share this "
                 "state, and one of them leads")
      ->default_str(
          absl::StrCat(roots.standard.empty() ? roots.fallback : roots.standard,
                       "/", kStateName));
  app.add_option("--advertise", flags.advertise,
                 "endpoints of this daemon, HOST:PORT,... (default: its "
                 "addresses)")
      ->delimiter(',')
      ->expected(1, kJoinEndpointsMax);
  app.add_option("--daemons", flags.daemons,
                 "with etcd: endpoints of all daemons, HOST:PORT,..., for join "
                 "strings")
      ->delimiter(',')
      ->expected(1, kJoinEndpointsMax);
  app.add_option("--join-dir", flags.join_dir,
                 "with etcd: folder for worker.join and admin.join, 0700");
  app.add_option(
      "--etcd-ca", flags.etcd.ca_file,
      "CA of etcd's members, PEM: connect to them by TLS; without it "
      "they must be\non loopback");
  app.add_option("--etcd-cert", flags.etcd.cert_file,
                 "client certificate for etcd, PEM");
  app.add_option("--etcd-key", flags.etcd.key_file, "its key, PEM, 0600");
  app.add_option("--etcd-user", flags.etcd.user,
                 "user name for etcd's authentication");
  app.add_option("--etcd-password-file", flags.etcd.password_file,
                 "file with that user's password, 0600; -: stdin");
  app.add_flag("--etcd-insecure", flags.etcd.insecure,
               "allow plaintext to members that are not on loopback");
  app.add_option("--etcd-key-file", flags.etcd.sealing_key_file,
                 "file with the key that seals the values in etcd, 0600; -: "
                 "stdin; the same for\nall daemons, and only without a shared "
                 "secret");
  app.add_option("--token-ttl", flags.token_ttl,
                 "how long worker.join is valid; it is replaced at half of "
                 "that time (default 24h;\nnever: it does not expire and is "
                 "not replaced)");
  auto* secret =
      app.add_option("--secret-file", flags.secret_file,
                     "file with the shared secret of all nodes; -: stdin (or "
                     "ROLLCALL_SECRET; default: no shared secret, but a CA and "
                     "tokens in STATE)");
  app.add_option("--tls-cert", flags.tls.cert_file,
                 "certificate of your own PKI, PEM");
  app.add_option("--tls-key", flags.tls.key_file, "its key, PEM");
  app.add_option("--tls-ca", flags.tls.ca_file,
                 "CA that must have signed the certificates of callers, PEM");
  app.add_flag("--tls-bind-names", flags.tls_bind_names,
               "an agent's node name must be a DNS name of its "
               "certificate");
  app.add_flag("--insecure", flags.insecure,
               "no TLS; on loopback only, for tests")
      ->excludes(secret);
  app.add_option("--log-level", flags.log_level, "what is logged to stderr")
      ->check(CLI::IsMember({"info", "warning", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", flags.log_format,
                 "how: key=value words, or one JSON object per line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      // Usually the value comes from an environment variable that is not set.
      std::fprintf(stderr,
                   "rollcalld: %s: expected a value, got an empty one; set the "
                   "variable that it comes from, or omit the flag to use its "
                   "default\n",
                   option->get_name().c_str());
      return kExitUsage;
    }
  }
  return std::nullopt;
}

}  // namespace rollcall
