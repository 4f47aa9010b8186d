// Trust: how a client verifies its daemon, as gRPC channel credentials.
//
// There are four ways: a pin (of the daemon's own CA, from a join string), a
// shared secret (the pin is derived from it), files of the user's own PKI, or
// no verification on loopback. The check is the last step of the TLS handshake,
// so no byte of a call, and no token, is sent before the check has succeeded.
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
  // The pin, 32 bytes; empty: the daemon is not verified by a pin.
  std::string pin;
  // Files of the user's own PKI: the CA that has issued the daemon's
  // certificate, and the client's own certificate and key. ChannelCredentials
  // reads them each time, so that they can be replaced at any time.
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  // The name that the daemon's certificate must have; empty: the host of the
  // endpoint.
  std::string server_name;
  // No TLS. The caller ensures that it is used on loopback only.
  bool insecure = false;
};

// The reason why verification failed in the latest connection attempt in which
// it failed.
class TrustVerdict {
 public:
  // OK: verification has not failed yet.
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

// The credentials for connections to `endpoint`, HOST:PORT. `verdict` (may be
// null) gets the reason if another daemon answers. FAILED_PRECONDITION: a file
// cannot be read (the message names it), nothing in `trust` identifies the
// daemon, or OpenSSL cannot make a key.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentials(
    const Trust& trust, const std::string& endpoint,
    std::shared_ptr<TrustVerdict> verdict);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_TRUST_H_
