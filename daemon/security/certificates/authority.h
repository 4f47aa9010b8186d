// Authority: a daemon's own CA (ECDSA P-256), and the certificates it issues.
//
// Agents trust only the key, whose digest they have (the pin). Certificates are
// valid from 2000 to 9999, because the clock of a rented machine may be wrong.
// A new certificate is issued at each start of the daemon.
//
// Immutable; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_CERTIFICATES_AUTHORITY_H_
#define ROLLCALL_DAEMON_SECURITY_CERTIFICATES_AUTHORITY_H_

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/security/certificates/chain.h"
#include "daemon/security/secrets/shared_secret.h"

namespace rollcall {

// A certificate with its key, as PEM.
struct IssuedCertificate {
  // The certificate, followed by the CA's certificate.
  std::string chain;
  std::string key;
};

class Authority {
 public:
  // An Authority with a new key.
  static absl::StatusOr<Authority> Make();
  // An Authority with the key that is derived from the secret, which is the
  // same for every holder of the secret.
  static absl::StatusOr<Authority> FromSecret(const SharedSecret& secret);
  // INVALID_ARGUMENT: `pem` is not the PEM of a P-256 private key.
  static absl::StatusOr<Authority> FromKey(std::string_view pem);

  // The private key as PEM. It is a secret.
  std::string KeyPem() const;
  // The CA's certificate.
  const std::string& certificate() const { return certificate_; }
  // SHA-256 of the CA's public key (SubjectPublicKeyInfo, DER): 32 bytes.
  const std::string& pin() const { return pin_; }

  // Issues a server's certificate with a new key, for these names and
  // addresses.
  absl::StatusOr<IssuedCertificate> Issue(
      const std::vector<std::string>& names) const;

 private:
  static absl::StatusOr<Authority> FromPkey(std::shared_ptr<EVP_PKEY> key);

  // Shared by copies of an Authority, because EVP_PKEY cannot be copied.
  std::shared_ptr<EVP_PKEY> key_;
  std::string certificate_;
  std::string pin_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CERTIFICATES_AUTHORITY_H_
