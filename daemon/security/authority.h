// Authority: a daemon's own CA (ECDSA P-256), and the certificates it issues.
//
// Agents trust the key alone: they pin its digest. Certificates are valid
// from 2000 to 9999 (the clock of a rented machine may be wrong), and a new one
// is issued at each start of the daemon.
//
// Immutable; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_AUTHORITY_H_
#define ROLLCALL_DAEMON_SECURITY_AUTHORITY_H_

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/security/chain.h"
#include "daemon/security/shared_secret.h"

namespace rollcall {

// A certificate with its key, as PEM.
struct IssuedCertificate {
  // The certificate, then the CA's.
  std::string chain;
  std::string key;
};

class Authority {
 public:
  // With a new key.
  static absl::StatusOr<Authority> Make();
  // With the key that is derived from the secret: the same for every holder.
  static absl::StatusOr<Authority> FromSecret(const SharedSecret& secret);
  // INVALID_ARGUMENT: `pem` is not the PEM of a P-256 private key.
  static absl::StatusOr<Authority> FromKey(std::string_view pem);

  // The private key. A secret.
  std::string KeyPem() const;
  // The CA's certificate.
  const std::string& certificate() const { return certificate_; }
  // SHA-256 of its public key (SubjectPublicKeyInfo, DER): 32 bytes.
  const std::string& pin() const { return pin_; }

  // A server's certificate with a new key, for these names and addresses.
  absl::StatusOr<IssuedCertificate> Issue(
      const std::vector<std::string>& names) const;

 private:
  static absl::StatusOr<Authority> FromPkey(std::shared_ptr<EVP_PKEY> key);

  // Shared: copies of an Authority have the same key, and EVP_PKEY is not
  // copyable.
  std::shared_ptr<EVP_PKEY> key_;
  std::string certificate_;
  std::string pin_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_AUTHORITY_H_
