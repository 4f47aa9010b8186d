// KeptTokens: the two tokens that a daemon is started with, in its state
// folder: `admin.token`, which opens everything to who may read the folder and
// has no end, and `worker.token`, which goes out in join strings and is
// replaced at half of its lifetime. 0600. JoinFiles: the join strings that
// bring them.
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

  // Those in `folder` (which exists and is private), made where there are none.
  // FAILED_PRECONDITION: a file cannot be read, written or understood; named.
  static absl::StatusOr<KeptTokens> Keep(const std::string& folder);
  // Fresh ones, or those that every holder of the secret knows; they take the
  // place of what the folder had.
  static absl::StatusOr<KeptTokens> Renew(
      const std::string& folder, const std::optional<SharedSecret>& secret);

  // For ServerOptions::tokens. With a secret: all three roles' as well; what is
  // derived from it has no end and is not replaced. `worker_lifetime`: as
  // --token-ttl says.
  std::vector<SeededToken> Seeds(const std::optional<SharedSecret>& secret,
                                 absl::Duration worker_lifetime) const;
};

// Writes one of them to its file, whole or not at all. FAILED_PRECONDITION: it
// cannot be written.
absl::Status WriteKeptToken(const std::string& folder, v1::Role role,
                            const v1::JoinToken& token);

// `worker.join` and `admin.join` in a folder (0600), for those who may read it,
// and not for a log. Used by one thread at a time: Server::Start's, and then
// the loop's.
class JoinFiles {
 public:
  // `join`: what is known before the daemon listens. Empty folder: none are
  // written.
  JoinFiles(std::string folder, v1::JoinString join)
      : folder_(std::move(folder)), join_(std::move(join)) {}

  void Listening(const std::vector<std::string>& endpoints,
                 const std::string& pin);
  // After Listening. Whole or not at all. FAILED_PRECONDITION: it cannot be
  // written.
  absl::Status Write(v1::Role role, const v1::JoinToken& token);

 private:
  const std::string folder_;
  v1::JoinString join_;
};

// A duration such as 90s or 24h, 2 s at least; `never`: infinite.
// INVALID_ARGUMENT: neither; `flag` is named.
absl::StatusOr<absl::Duration> ParseTokenTtl(const std::string& flag,
                                             const std::string& text);

// The file names in a state folder.
inline constexpr char kAdminTokenFile[] = "/admin.token";
inline constexpr char kWorkerTokenFile[] = "/worker.token";
inline constexpr char kWorkerJoinFile[] = "/worker.join";
inline constexpr char kAdminJoinFile[] = "/admin.join";

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_KEPT_TOKENS_H_
