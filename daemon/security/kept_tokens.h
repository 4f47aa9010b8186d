// KeptTokens: the two tokens in a daemon's state folder (mode 0600):
// `admin.token`, which allows everything and does not expire, and
// `worker.token`, which is part of join strings and is replaced at half of its
// lifetime. JoinFiles: the files with the join strings of these tokens.
#ifndef ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_
#define ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/security/secrets/shared_secret.h"
#include "daemon/security/secrets/token_table.h"

namespace rollcall {

struct KeptTokens {
  v1::JoinToken admin;
  v1::JoinToken worker;

  // Reads the tokens in `folder` (which exists and is private), or creates the
  // missing ones there. FAILED_PRECONDITION: a file cannot be read, written or
  // parsed; the message names the file.
  static absl::StatusOr<KeptTokens> Keep(const std::string& folder);
  // Replaces the tokens in `folder` by new ones, or by those that are derived
  // from the secret.
  static absl::StatusOr<KeptTokens> Renew(
      const std::string& folder, const std::optional<SharedSecret>& secret);

  // Returns the tokens for ServerOptions::tokens. With a secret, they include
  // the derived tokens of all three roles, which do not expire and are not
  // replaced. `worker_lifetime`: from --token-ttl.
  std::vector<SeededToken> Seeds(const std::optional<SharedSecret>& secret,
                                 absl::Duration worker_lifetime) const;
};

// Writes one token to its file, atomically. FAILED_PRECONDITION: the file
// cannot be written.
absl::Status WriteKeptToken(const std::string& folder, v1::Role role,
                            const v1::JoinToken& token);

// Writes `worker.join` and `admin.join` (0600) to a folder, for users who may
// read it. Join strings are never logged. One thread at a time: first the
// thread that calls Server::Start, then the loop thread.
class JoinFiles {
 public:
  // `join`: the parts of the join string that are known before the daemon
  // listens. If `folder` is empty, Write does nothing.
  JoinFiles(std::string folder, v1::JoinString join)
      : folder_(std::move(folder)), join_(std::move(join)) {}

  void Listening(const std::vector<std::string>& endpoints,
                 const std::string& pin);
  // Writes the join string with this token to its file, atomically. Call it
  // after Listening. FAILED_PRECONDITION: the file cannot be written.
  absl::Status Write(v1::Role role, const v1::JoinToken& token);

 private:
  const std::string folder_;
  v1::JoinString join_;
};

// Parses a duration such as 90s or 24h, from 2 s to 8784 h, or `never`
// (infinite). INVALID_ARGUMENT: `text` is neither; the message names `flag`.
absl::StatusOr<absl::Duration> ParseTokenTtl(const std::string& flag,
                                             const std::string& text);

// The file names in a state folder.
inline constexpr char kAdminTokenFile[] = "/admin.token";
inline constexpr char kWorkerTokenFile[] = "/worker.token";
inline constexpr char kWorkerJoinFile[] = "/worker.join";
inline constexpr char kAdminJoinFile[] = "/admin.join";

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_
