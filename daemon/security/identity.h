// Identity: who a daemon is over all its lives: its CA and the key of the node
// credentials it gives out.
//
// Kept in its state folder (ca.key, credential.key; 0600), made there at the
// first start; or derived from a shared secret, and then kept nowhere.
// Immutable; any thread.
#ifndef ROLLCALL_DAEMON_SECURITY_IDENTITY_H_
#define ROLLCALL_DAEMON_SECURITY_IDENTITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/security/authority.h"
#include "daemon/security/shared_secret.h"

namespace rollcall {

struct Identity {
  Authority authority;
  std::string credential_key;

  // A fresh one that is kept nowhere.
  static absl::StatusOr<Identity> Make();
  static absl::StatusOr<Identity> FromSecret(const SharedSecret& secret);
  // The one kept in `folder` (which exists and is private), made if there is
  // none. FAILED_PRECONDITION: a file there cannot be read, written or
  // understood; named. One process at a time.
  static absl::StatusOr<Identity> Keep(const std::string& folder);
};

// Writes `text` beside `path` and renames: whoever reads sees the old one or
// the whole new one. Mode 0600. FAILED_PRECONDITION: it cannot be written.
absl::Status WriteSecretFile(const std::string& path, const std::string& text);

// At most 4 MiB; does not look at its mode. FAILED_PRECONDITION: it cannot be
// read, or is larger; NOT_FOUND: it is not there.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// As ReadSecretFile, of a file that holds a secret: FAILED_PRECONDITION as well
// where its group or others can read or write it. On a read-only mount, as
// Kubernetes makes of a secret, nobody here can change its mode: it is read,
// and `warning`, unless null, says what was found. A pipe or a terminal has no
// mode that counts.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path,
                                            std::string* warning = nullptr);
// As ReadPrivateFile, of a file that this program keeps in its own folder:
// FAILED_PRECONDITION as well where it is a link, no regular file, or another
// user's. root is refused another user's file, too.
absl::StatusOr<std::string> ReadOwnFile(const std::string& path);
// Whether ReadPrivateFile would take a file by its mode; OK where it cannot be
// opened, which its reader says better.
absl::Status CheckPrivateFile(const std::string& path,
                              std::string* warning = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_IDENTITY_H_
