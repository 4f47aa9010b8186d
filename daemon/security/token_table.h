// TokenTable: the tokens of one daemon: role, expiry, uses, revocation.
//
// Decides and counts; journals nothing itself (see Changed) and reads no clock.
// Holds digests of secrets, never a secret. Times are wall clock times, since
// they must mean the same after a restart.
//
// Thread rule: one thread at a time; in practice the loop thread.
//
// "Seeded": a token that the daemon is started with. "Kept": a seeded token
// that is in a file of the state folder.
//
// Invariants:
//   1. At most Limits::tokens_max records, and the few seeded ones. A record
//      that is no longer valid makes room for a new one; a valid one never
//      does.
//   2. A revoked token is never valid again, even if it is seeded again.
//   3. A seeded token is forgotten when the daemon is started without it. One
//      that was replaced stays valid until its own expiry, as long as its
//      successor is known.
//   4. A kept token that expires is replaced at half of its lifetime; a kept
//      token that is revoked is replaced at once.
#ifndef ROLLCALL_DAEMON_SECURITY_TOKEN_TABLE_H_
#define ROLLCALL_DAEMON_SECURITY_TOKEN_TABLE_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A token that a daemon is started with.
struct SeededToken {
  v1::JoinToken token;
  v1::Role role = v1::ROLE_WORKER;
  std::string description;
  // The daemon keeps it in a file, and rewrites the file when it replaces the
  // token. At most one token per role is kept.
  bool kept = false;
  // From the time when it is first seeded. Only for a kept one.
  absl::Duration lifetime = absl::InfiniteDuration();
};

// Writes the token that has replaced a kept one to that one's file.
using KeepToken =
    std::function<absl::Status(v1::Role role, const v1::JoinToken& token)>;

// The result of checking a token that a client has shown.
struct TokenVerdict {
  absl::Status status;
  // UNSPECIFIED: it is valid.
  v1::RefusalCode code = v1::REFUSAL_CODE_UNSPECIFIED;
  // The job that a valid token is for; empty: any.
  std::string job;
  // Of a valid token.
  v1::Role role = v1::ROLE_UNSPECIFIED;

  bool ok() const { return status.ok(); }
};

class TokenTable {
 public:
  // What a client wants to do with a token.
  enum class For {
    kAttend,  // Costs a use.
    kReturn,  // As kAttend, but the use was counted before.
    kLead,    // To attend as the launcher's own agent; costs a use.
    kLook,
    kSteer,
  };

  // Takes the records of the journal; before Seed.
  void Load(const std::vector<v1::TokenRecord>& records);
  // Takes the tokens that the daemon is started with, once. A token that is
  // known already, with the same secret, stays as it is; a token that was
  // seeded before and is not now is forgotten. The lifetime of a new one begins
  // `now`; a known one keeps its expiry, also if it has none.
  void Seed(const std::vector<SeededToken>& seeds, absl::Time now);

  // Whether `token` allows this in `job` (empty: none was named).
  TokenVerdict Check(const v1::JoinToken& token, For purpose,
                     std::string_view job, absl::Time now) const;
  bool Knows(const std::string& id) const { return records_.contains(id); }
  // UNSPECIFIED: there is no such token.
  v1::Role RoleOf(const std::string& id) const;
  // Counts one use: an agent was admitted with it.
  void Use(const std::string& id);

  // Adds a token that was just made, with the properties in `request`.
  // INVALID_ARGUMENT: role, lifetime or description are not valid.
  // RESOURCE_EXHAUSTED: the table is full of valid tokens.
  absl::Status Create(const v1::JoinToken& token,
                      const v1::CreateTokenRequest& request, absl::Time now);
  // `bound_to`: the job of the calling admin; empty: an admin of the daemon.
  // NOT_FOUND: there is no such token, or it is not for that job alone.
  // FAILED_PRECONDITION: it is the last admin token that does not expire.
  absl::Status Revoke(const std::string& id, const std::string& bound_to,
                      absl::Time now);
  // Adds `fresh` with the properties of token `id` and what is left of its
  // lifetime and uses, and revokes `id`. A kept token is replaced, with a full
  // lifetime. Errors as those of Revoke and Create; then nothing has changed.
  absl::Status Rotate(const std::string& id, const v1::JoinToken& fresh,
                      const std::string& bound_to, absl::Time now);
  // When the next kept token is to be replaced.
  absl::Time NextReplacement() const;
  // Replaces one kept token that is due by `fresh`. Returns its role; nullopt:
  // none is due.
  std::optional<v1::Role> ReplaceDue(const v1::JoinToken& fresh,
                                     absl::Time now);
  // The role of the kept token with this id; nullopt: it is not a kept one.
  std::optional<v1::Role> KeptRole(const std::string& id) const;
  // Tokens for `job` and tokens for any job; empty: all. By id.
  std::vector<v1::TokenStatus> List(const std::string& job) const;

  // What has to be journaled: records that were added or changed since the last
  // Saved, and ids that were removed.
  struct Changes {
    std::vector<v1::TokenRecord> written;
    std::vector<std::string> removed;
    bool empty() const { return written.empty() && removed.empty(); }
  };
  Changes Changed() const;
  void Saved();

 private:
  // A kept token as it was seeded, without its secret.
  struct Kept {
    std::string id;
    std::string description;
    absl::Duration lifetime;
  };

  bool Valid(const v1::TokenRecord& record, absl::Time now) const;
  void SeedOne(const SeededToken& seeded, absl::Time now);
  void Add(const SeededToken& seeded, absl::Time now);
  absl::Time DueAt(const Kept& kept) const;
  void Replace(v1::Role role, const v1::JoinToken& fresh, absl::Time now);
  // NOT_FOUND: as in Revoke.
  absl::StatusOr<v1::TokenRecord*> Find(const std::string& id,
                                        const std::string& bound_to);
  void Remove(const std::string& id);
  bool MakeRoom(absl::Time now);

  std::map<std::string, v1::TokenRecord> records_;
  std::map<v1::Role, Kept> kept_;
  std::set<std::string> changed_;
  std::set<std::string> removed_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SECURITY_TOKEN_TABLE_H_
