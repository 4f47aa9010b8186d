// Trust: how a client verifies its daemon, as gRPC channel credentials.
//
// Four ways: a pin (the daemon's own CA, from a join string), a shared secret
// (the pin is derived from it), files of the user's own PKI, or no verification
// on loopback. The check is the last step of the TLS handshake: no byte of a
// call, and so no token, is sent before it has passed.
//
// Values; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_TRUST_H_
#define ROLLCALL_DAEMON_SECURITY_TRUST_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/mutex.h"

namespace rollcall {

struct Trust {
  // 32 bytes; empty: not by pin.
  std::string pin;
  // Of the user's own PKI: the CA that has issued the daemon's certificate,
  // and the client's own certificate and key. Read again for each connection,
  // so that they can be replaced at any time.
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  // The name that the daemon's certificate must have; empty: the host of the
  // endpoint.
  std::string server_name;
  // No TLS. The caller ensures that it is used on loopback only.
  bool insecure = false;
};

// Why the latest connection attempt that failed verification was refused.
class TrustVerdict {
 public:
  // OK: none has failed verification.
  absl::Status status() const {
    MutexLock lock(mutex_);
    return status_;
  }
  void Refuse(absl::Status status) {
    MutexLock lock(mutex_);
    status_ = std::move(status);
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// For connections to `endpoint`, HOST:PORT. `verdict` (may be null) gets the
// reason if another daemon answers. FAILED_PRECONDITION: a file cannot be read
// (the message names it), or nothing in `trust` identifies the daemon.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentials(
    const Trust& trust, const std::string& endpoint,
    std::shared_ptr<TrustVerdict> verdict);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_TRUST_H_
