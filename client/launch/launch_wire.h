// LaunchWire: how a launcher's daemon authenticates clients: the kind of TLS,
// the tokens of this run, and the contents of join strings.
//
// Thread rule: values; one thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_LAUNCH_WIRE_H_
#define ROLLCALL_CLIENT_LAUNCH_LAUNCH_WIRE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/admin/addresses.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/security/secrets/shared_secret.h"
#include "daemon/security/server_certificate.h"
#include "daemon/security/trust.h"

namespace rollcall {

// TLS by a shared secret, by files of the user's own PKI, or, if neither is
// set, by the daemon's own CA; `insecure`: no TLS, loopback only.
struct WireOptions {
  std::optional<SharedSecret> secret;
  TlsFiles tls;
  // Only with `tls`: see ServerOptions.
  bool bind_names = false;
  bool insecure = false;
  // The HTTP port; see ServerOptions. Nullopt: none.
  std::optional<HostPort> http;
  bool http_insecure = false;
};

struct LaunchWire {
  WireOptions options;
  // The tokens of this run; also stored in the state folder.
  KeptTokens tokens;
  // How processes of this machine verify the daemon.
  Trust trust;

  // Makes the CA in `folder` if there is none; call TakeTokens next.
  // FAILED_PRECONDITION (both functions): a file cannot be read, written or
  // parsed; the message names it.
  static absl::StatusOr<LaunchWire> Make(const std::string& folder,
                                         WireOptions options);
  // Reads the tokens of the run that continues (`goes_on`), or makes new tokens
  // for a new run.
  absl::Status TakeTokens(const std::string& folder, bool goes_on);

  // The kind of TLS and the HTTP port, as text; equal texts mean equal
  // settings.
  std::string Describe() const;

  // The text of Describe without the HTTP port.
  std::string DescribeTls() const;

  // Flags for `rollcall daemon` and `rollcall agent`; without secrets.
  std::vector<std::string> DaemonFlags() const;
  std::vector<std::string> AgentFlags() const;

  // Addresses at which others reach a daemon with this --listen: the names in
  // its certificate, if they are known.
  std::vector<std::string> Endpoints(const HostPort& listen, int port) const;
  std::string JoinString(const std::vector<std::string>& endpoints,
                         const std::string& job,
                         const v1::JoinToken& token) const;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LAUNCH_WIRE_H_
