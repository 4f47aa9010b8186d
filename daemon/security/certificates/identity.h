// Identity: the CA of a daemon and its key for node credentials. Both stay the
// same when the daemon is restarted.
//
// The first start creates them in the state folder (ca.key, credential.key;
// 0600). With a shared secret they are derived from the secret and not stored.
// Immutable; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_CERTIFICATES_IDENTITY_H_
#define ROLLCALL_DAEMON_SECURITY_CERTIFICATES_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/security/certificates/authority.h"
#include "daemon/security/secrets/shared_secret.h"

namespace rollcall {

struct Identity {
  Authority authority;
  std::string credential_key;

  // A new identity that is not stored.
  static absl::StatusOr<Identity> Make();
  static absl::StatusOr<Identity> FromSecret(const SharedSecret& secret);
  // Reads the identity in `folder` (which exists and is private), or creates it
  // there. FAILED_PRECONDITION: a file cannot be read, written or parsed; the
  // message names the file. One process at a time.
  static absl::StatusOr<Identity> Keep(const std::string& folder);
};

// Writes `text` to a new file and renames it to `path`, so that a reader gets
// either the old text or the whole new one. Mode 0600. FAILED_PRECONDITION: the
// file cannot be written.
absl::Status WriteSecretFile(const std::string& path, const std::string& text);

// Reads a file of at most 4 MiB; does not check its mode. FAILED_PRECONDITION:
// the file cannot be read, or is larger. NOT_FOUND: there is no such file.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// As ReadSecretFile, for a file with a secret. Also returns FAILED_PRECONDITION
// if its group or others can read or write it. On a read-only mount (as
// Kubernetes mounts secrets) the mode cannot be changed, so the file is read in
// this case too, and `warning`, unless null, is set to a text with the mode.
// The mode of a pipe or a terminal is not checked.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path,
                                            std::string* warning = nullptr);
// As ReadPrivateFile, for a file that this program keeps in its own folder.
// Also returns FAILED_PRECONDITION if it is a link, is not a regular file, or
// belongs to another user, even if this process is root's.
absl::StatusOr<std::string> ReadOwnFile(const std::string& path);
// Checks the mode as ReadPrivateFile does. OK if the file cannot be opened,
// because the error of reading it later is clearer.
absl::Status CheckPrivateFile(const std::string& path,
                              std::string* warning = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_CERTIFICATES_IDENTITY_H_
