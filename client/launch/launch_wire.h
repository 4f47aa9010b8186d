// LaunchWire: how a launcher's daemon is closed to strangers and opened to its
// own: the way of TLS, the tokens of this run, and what join strings say.
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
#include "daemon/security/server_certificate.h"
#include "daemon/security/shared_secret.h"
#include "daemon/security/trust.h"

namespace rollcall {

// By a shared secret, by files of the user's own PKI, not at all (loopback
// only), or, with none of these, by a CA of the daemon's own.
struct WireOptions {
  std::optional<SharedSecret> secret;
  TlsFiles tls;
  // With `tls`: see ServerOptions.
  bool bind_names = false;
  bool insecure = false;
};

struct LaunchWire {
  WireOptions options;
  // Of this run; in the state folder as well.
  KeptTokens tokens;
  // How everybody on this machine knows the daemon.
  Trust trust;

  // Makes the CA where there is none, in `folder`; the tokens are still to be
  // taken. Errors of both are FAILED_PRECONDITION: a file cannot be read,
  // written or understood; named.
  static absl::StatusOr<LaunchWire> Make(const std::string& folder,
                                         WireOptions options);
  // Those of the run that goes on, or fresh ones for a new run.
  absl::Status TakeTokens(const std::string& folder, bool goes_on);

  // How it is closed, in words; what differs is closed otherwise.
  std::string Describe() const;

  // What `rollcall daemon` and `rollcall agent` are told; nothing secret.
  std::vector<std::string> DaemonFlags() const;
  std::vector<std::string> AgentFlags() const;

  // Where others reach a daemon that listens so: what its certificate is for,
  // where that is known.
  std::vector<std::string> Endpoints(const HostPort& listen, int port) const;
  std::string JoinString(const std::vector<std::string>& endpoints,
                         const std::string& job,
                         const v1::JoinToken& token) const;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LAUNCH_WIRE_H_
