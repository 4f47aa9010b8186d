#include "daemon/server/server_options.h"

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/security/join_string.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

absl::Status CheckWire(const ServerOptions& options) {
  const int ways = (options.secret.has_value() ? 1 : 0) +
                   (options.tls.empty() ? 0 : 1) + (options.insecure ? 1 : 0);
  if (ways > 1) {
    return absl::InvalidArgumentError(
        "a shared secret, --tls-cert and --insecure exclude each other: give "
        "one of them");
  }
  if (options.tls_bind_names && options.tls.empty()) {
    return absl::InvalidArgumentError(
        "--tls-bind-names binds node names to the certificates of your own "
        "PKI: expected --tls-ca, --tls-cert and --tls-key as well, got none");
  }
  if (options.insecure && !IsLoopback(options.listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--insecure is for loopback alone: expected --listen 127.0.0.1:PORT or "
        "[::1]:PORT, got ",
        options.listen));
  }
  if (options.http_insecure && options.http.empty()) {
    return absl::InvalidArgumentError(
        "--http-insecure: expected --http ADDR:PORT as well, got none");
  }
  return options.tls.empty() ? absl::OkStatus() : CheckTlsFiles(options.tls);
}

}  // namespace

absl::Status CheckShared(const ServerOptions& options) {
  if (!options.etcd.has_value()) return absl::OkStatus();
  if (!options.state_dir.empty() || !options.job.empty()) {
    return absl::InvalidArgumentError(
        "state in etcd is only for a daemon with many jobs, and replaces a "
        "state folder: give one or the other");
  }
  if (options.secret.has_value() && options.etcd_key.has_value()) {
    return absl::InvalidArgumentError(
        "--etcd-key-file is for daemons without a shared secret; a shared "
        "secret already encrypts the values in etcd: give one or the other");
  }
  if (options.secret.has_value()) return absl::OkStatus();
  if (!options.tls.empty() || options.insecure) {
    if (options.etcd_key.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "the values in etcd are encrypted: give all daemons the same "
        "--etcd-key-file (make one with `rollcall token secret`), or the same "
        "--secret-file");
  }
  return absl::InvalidArgumentError(
      "daemons that share their state in etcd must show one identity, and a CA "
      "of a daemon's own cannot be shared: give all of them the same "
      "--secret-file, or certificates of one CA (--tls-cert, --tls-key, "
      "--tls-ca); on loopback --insecure will do");
}

absl::Status CheckOptions(const ServerOptions& options) {
  if (options.tokens.empty() && !options.tokens_in_etcd) {
    return absl::InvalidArgumentError("tokens: expected one, got none");
  }
  for (const SeededToken& seeded : options.tokens) {
    if (IsToken(seeded.token)) continue;
    return absl::InvalidArgumentError(
        "tokens: expected an id and a secret of 1 to 64 bytes, got others");
  }
  if (absl::Status fits = CheckWire(options); !fits.ok()) return fits;
  if (absl::Status fits = CheckShared(options); !fits.ok()) return fits;
  if (absl::Status fits = AdmitSettings(options.settings); !fits.ok()) {
    return fits;
  }
  if (options.job.empty()) return absl::OkStatus();
  if (absl::Status fits = AdmitJobId(options.job); !fits.ok()) return fits;
  if (!options.settings.has_nodes_min() || !options.settings.has_nodes_max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "settings of job ", options.job,
        ": expected nodes_min and nodes_max, got none; give --nodes"));
  }
  return absl::OkStatus();
}

}  // namespace rollcall
