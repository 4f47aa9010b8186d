// GivenSecrets: reads a join string or a shared secret from the environment, a
// file or stdin. The secret never appears in argv or in the environment of a
// child.
#ifndef ROLLCALL_DAEMON_SECURITY_GIVEN_SECRETS_H_
#define ROLLCALL_DAEMON_SECURITY_GIVEN_SECRETS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/security/crypto/wipe.h"
#include "daemon/security/secrets/shared_secret.h"

namespace rollcall {

// The values of two environment variables; empty if unset.
struct GivenSecrets {
  std::string join;    // ROLLCALL_JOIN
  std::string secret;  // ROLLCALL_SECRET

  // Overwrites both.
  void Forget() {
    Wipe(join);
    Wipe(secret);
  }
};

// Takes both variables out of the environment and overwrites their memory, so
// that neither a child nor /proc/PID/environ has them. Call it before there is
// a second thread.
GivenSecrets TakeSecrets();

// The text of a file, or of stdin for `-`. INVALID_ARGUMENT: the file cannot be
// read, is too large, or can be read or written by others; the message names
// `flag` and the file. `warning`: as in ReadPrivateFile.
absl::StatusOr<std::string> ReadGiven(const std::string& flag,
                                      const std::string& file,
                                      std::string* warning = nullptr);

// The secret in --secret-file, or else in ROLLCALL_SECRET; nullopt if neither
// is given. INVALID_ARGUMENT: the text is not a shared secret, or as in
// ReadGiven. Leaves no other copy of the secret in memory. `warning`: as in
// ReadPrivateFile.
absl::StatusOr<std::optional<SharedSecret>> GivenSecret(
    const std::string& file, const std::string& from_environment,
    std::string* warning = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_GIVEN_SECRETS_H_
