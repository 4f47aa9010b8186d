#include "client/launch/launch_wire.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/facts/facts.h"
#include "daemon/core/network_plan/join_endpoints.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

absl::StatusOr<Trust> TrustFor(const std::string& folder,
                               const WireOptions& options) {
  Trust trust;
  if (options.insecure) {
    trust.insecure = true;
    return trust;
  }
  if (!options.tls.empty()) {
    trust.ca_file = options.tls.ca_file;
    trust.cert_file = options.tls.cert_file;
    trust.key_file = options.tls.key_file;
    // The launcher dials the daemon by an address that may be missing in the
    // daemon's certificate, so it expects a name from the certificate.
    const std::vector<std::string> names =
        CertificateNames(options.tls.cert_file);
    if (!names.empty()) trust.server_name = names.front();
    return trust;
  }
  const absl::StatusOr<Identity> identity =
      options.secret.has_value() ? Identity::FromSecret(*options.secret)
                                 : Identity::Keep(folder);
  if (!identity.ok()) return identity.status();
  trust.pin = identity->authority.pin();
  return trust;
}

void Add(std::vector<std::string>& flags, const char* name,
         const std::string& value) {
  if (!value.empty()) flags.insert(flags.end(), {name, value});
}

}  // namespace

absl::StatusOr<LaunchWire> LaunchWire::Make(const std::string& folder,
                                            WireOptions options) {
  absl::StatusOr<Trust> trust = TrustFor(folder, options);
  if (!trust.ok()) return trust.status();
  return LaunchWire{std::move(options), {}, *std::move(trust)};
}

absl::Status LaunchWire::TakeTokens(const std::string& folder, bool goes_on) {
  absl::StatusOr<KeptTokens> taken =
      goes_on ? KeptTokens::Keep(folder)
              : KeptTokens::Renew(folder, options.secret);
  if (!taken.ok()) return taken.status();
  tokens = *std::move(taken);
  return absl::OkStatus();
}

std::string LaunchWire::Describe() const {
  const std::string http =
      !options.http.has_value()
          ? ""
          : absl::StrCat(" --http ", FormatHostPort(*options.http),
                         options.http_insecure ? " --http-insecure" : "");
  return DescribeTls() + http;
}

std::string LaunchWire::DescribeTls() const {
  if (options.insecure) return "--insecure";
  if (!options.tls.empty()) {
    return absl::StrCat("--tls-cert ", options.tls.cert_file,
                        options.bind_names ? " --tls-bind-names" : "");
  }
  return absl::StrCat(options.secret ? "a shared secret" : "a CA of its own",
                      " (", absl::BytesToHexString(trust.pin.substr(0, 4)),
                      ")");
}

std::vector<std::string> LaunchWire::DaemonFlags() const {
  std::vector<std::string> flags;
  if (options.insecure) flags.push_back("--insecure");
  Add(flags, "--tls-ca", options.tls.ca_file);
  Add(flags, "--tls-cert", options.tls.cert_file);
  Add(flags, "--tls-key", options.tls.key_file);
  if (options.bind_names) flags.push_back("--tls-bind-names");
  return flags;
}

std::vector<std::string> LaunchWire::AgentFlags() const {
  std::vector<std::string> flags;
  Add(flags, "--tls-ca", trust.ca_file);
  Add(flags, "--tls-cert", trust.cert_file);
  Add(flags, "--tls-key", trust.key_file);
  Add(flags, "--tls-server-name", trust.server_name);
  return flags;
}

std::vector<std::string> LaunchWire::Endpoints(const HostPort& listen,
                                               int port) const {
  std::vector<std::string> all =
      JoinEndpoints(listen.host, port, GatherFacts().interfaces());
  if (options.tls.empty()) return all;
  return NamedEndpoints(all, options.tls.cert_file, port);
}

std::string LaunchWire::JoinString(const std::vector<std::string>& endpoints,
                                   const std::string& job,
                                   const v1::JoinToken& token) const {
  v1::JoinString join;
  join.mutable_endpoints()->Add(endpoints.begin(), endpoints.end());
  join.set_job(job);
  join.set_ca_pin(trust.pin);
  join.set_insecure(trust.insecure);
  *join.mutable_token() = token;
  return EncodeJoinString(join);
}

}  // namespace rollcall
