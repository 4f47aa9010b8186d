// GivenSecrets: what opens a job, from where a user may put it: the
// environment, a file, stdin; never to be seen in argv or in the environment of
// a child.
#ifndef ROLLCALL_DAEMON_SECURITY_GIVEN_SECRETS_H_
#define ROLLCALL_DAEMON_SECURITY_GIVEN_SECRETS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/security/shared_secret.h"
#include "daemon/security/wipe.h"

namespace rollcall {

// Of the environment; empty where unset.
struct GivenSecrets {
  std::string join;    // ROLLCALL_JOIN
  std::string secret;  // ROLLCALL_SECRET

  // Overwrites both.
  void Forget() {
    Wipe(join);
    Wipe(secret);
  }
};

// Takes them out of the environment and overwrites the memory where they stood,
// so that neither a child nor /proc/PID/environ shows them. Before any thread
// is there.
GivenSecrets TakeSecrets();

// Text of a file, or of stdin for `-`. INVALID_ARGUMENT: it cannot be read, or
// is too large, or others can read or write the file; `flag` and file are
// named. `warning`: as ReadPrivateFile.
absl::StatusOr<std::string> ReadGiven(const std::string& flag,
                                      const std::string& file,
                                      std::string* warning = nullptr);

// The secret that --secret-file or else ROLLCALL_SECRET holds; nothing: neither
// is given. INVALID_ARGUMENT: it is none, or as ReadGiven. Leaves no copy of it
// but the value. `warning`: as ReadPrivateFile.
absl::StatusOr<std::optional<SharedSecret>> GivenSecret(
    const std::string& file, const std::string& from_environment,
    std::string* warning = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_GIVEN_SECRETS_H_
