// KeptTokens: the two tokens in a daemon's state folder (mode 0600):
// `admin.token`, which allows everything and does not expire, and
// `worker.token`, which is part of join strings and is replaced at half of its
// lifetime. JoinFiles: the join strings with these tokens.
#ifndef ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_
#define ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/security/shared_secret.h"
#include "daemon/security/token_table.h"

namespace rollcall {

struct KeptTokens {
  v1::JoinToken admin;
  v1::JoinToken worker;

  // Reads those in `folder` (which exists and is private), or makes them there.
  // FAILED_PRECONDITION: a file cannot be read, written or parsed; the message
  // names it.
  static absl::StatusOr<KeptTokens> Keep(const std::string& folder);
  // Replaces those in `folder` by new ones, or by those derived from the
  // secret.
  static absl::StatusOr<KeptTokens> Renew(
      const std::string& folder, const std::optional<SharedSecret>& secret);

  // For ServerOptions::tokens. With a secret, the derived tokens of all three
  // roles as well; these do not expire and are not replaced.
  // `worker_lifetime`: from --token-ttl.
  std::vector<SeededToken> Seeds(const std::optional<SharedSecret>& secret,
                                 absl::Duration worker_lifetime) const;
};

// Writes one token to its file, atomically. FAILED_PRECONDITION: it cannot be
// written.
absl::Status WriteKeptToken(const std::string& folder, v1::Role role,
                            const v1::JoinToken& token);

// Writes `worker.join` and `admin.join` to a folder (0600), for users who may
// read it; they are never logged. One thread at a time: first that of
// Server::Start, then the loop thread.
class JoinFiles {
 public:
  // `join`: the parts of the join string that are known before the daemon
  // listens. Empty folder: Write does nothing.
  JoinFiles(std::string folder, v1::JoinString join)
      : folder_(std::move(folder)), join_(std::move(join)) {}

  void Listening(const std::vector<std::string>& endpoints,
                 const std::string& pin);
  // After Listening. Atomic. FAILED_PRECONDITION: it cannot be written.
  absl::Status Write(v1::Role role, const v1::JoinToken& token);

 private:
  const std::string folder_;
  v1::JoinString join_;
};

// A duration such as 90s or 24h, from 2 s to 8784 h; `never`: infinite.
// INVALID_ARGUMENT: neither; the message names `flag`.
absl::StatusOr<absl::Duration> ParseTokenTtl(const std::string& flag,
                                             const std::string& text);

// The file names in a state folder.
inline constexpr char kAdminTokenFile[] = "/admin.token";
inline constexpr char kWorkerTokenFile[] = "/worker.token";
inline constexpr char kWorkerJoinFile[] = "/worker.join";
inline constexpr char kAdminJoinFile[] = "/admin.join";

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_
