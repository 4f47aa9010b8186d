// Identity: what stays the same when a daemon is restarted: its CA, and the key
// for node credentials.
//
// The first start creates it in the state folder (ca.key, credential.key;
// 0600). With a shared secret it is derived from the secret and not stored.
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

  // A new one that is not stored.
  static absl::StatusOr<Identity> Make();
  static absl::StatusOr<Identity> FromSecret(const SharedSecret& secret);
  // Reads the one in `folder` (which exists and is private), or makes it there.
  // FAILED_PRECONDITION: a file cannot be read, written or parsed; the message
  // names it. One process at a time.
  static absl::StatusOr<Identity> Keep(const std::string& folder);
};

// Writes `text` to a new file and renames it to `path`: a reader sees the old
// text or the whole new one. Mode 0600. FAILED_PRECONDITION: it cannot be
// written.
absl::Status WriteSecretFile(const std::string& path, const std::string& text);

// Reads at most 4 MiB; does not check the file's mode. FAILED_PRECONDITION: it
// cannot be read, or is larger; NOT_FOUND: there is no such file.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// As ReadSecretFile, for a file that holds a secret: also FAILED_PRECONDITION
// if its group or others can read or write it. On a read-only mount (as
// Kubernetes mounts secrets) the mode cannot be changed: the file is read, and
// `warning`, unless null, gets the mode that was found. The mode of a pipe or a
// terminal is not checked.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path,
                                            std::string* warning = nullptr);
// As ReadPrivateFile, for a file that this program keeps in its own folder:
// also FAILED_PRECONDITION if it is a link, is no regular file, or belongs to
// another user. This holds for root too.
absl::StatusOr<std::string> ReadOwnFile(const std::string& path);
// Checks the mode as ReadPrivateFile does. OK if the file cannot be opened:
// the error of reading it is clearer.
absl::Status CheckPrivateFile(const std::string& path,
                              std::string* warning = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_IDENTITY_H_
