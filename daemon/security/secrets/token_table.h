// TokenTable: the tokens of one daemon: role, expiry, uses, revocation.
//
// It decides and counts; it journals nothing itself (see Changed) and reads no
// clock. It has digests of secrets, never a secret. Times are wall clock times,
// because they must mean the same after a restart.
//
// Thread rule: one thread at a time; in practice the loop thread.
//
// "Seeded": a token that the daemon is started with. "Kept": a seeded token
// that is in a file of the state folder.
//
// Invariants:
//   1. There are at most Limits::tokens_max records, plus the few seeded ones.
//      A record that is no longer valid is removed to make room for a new one;
//      a valid one never is.
//   2. A revoked token is never valid again, even if it is seeded again.
//   3. A seeded token is removed when the daemon is started without it. One
//      that was replaced stays valid until its own expiry, as long as its
//      successor is known.
//   4. A kept token that expires is replaced at half of its lifetime; a kept
//      token that is revoked is replaced at once.
#ifndef ROLLCALL_DAEMON_SECURITY_SECRETS_TOKEN_TABLE_H_
#define ROLLCALL_DAEMON_SECURITY_SECRETS_TOKEN_TABLE_H_

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
  // The daemon keeps the token in a file, and rewrites the file when it
  // replaces the token. At most one token per role is kept.
  bool kept = false;
  // Counted from the time when the token is first seeded. Only for a kept
  // token.
  absl::Duration lifetime = absl::InfiniteDuration();
};

// Writes a new token, which has replaced a kept one, to the file of that one.
using KeepToken =
    std::function<absl::Status(v1::Role role, const v1::JoinToken& token)>;

// The result of checking a token that a client has shown.
struct TokenVerdict {
  absl::Status status;
  // UNSPECIFIED: the token is valid.
  v1::RefusalCode code = v1::REFUSAL_CODE_UNSPECIFIED;
  // The job that a valid token is for; empty: any.
  std::string job;
  // The role of a valid token.
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

  // Takes the records of the journal. Call it before Seed.
  void Load(const std::vector<v1::TokenRecord>& records);
  // Takes the tokens that the daemon is started with, once. A token that is
  // known already, with the same secret, does not change. A token that was
  // seeded before and is not now is removed, see invariant 3. The lifetime of a
  // new token begins at `now`; a known one keeps its expiry, even if it has
  // none.
  void Seed(const std::vector<SeededToken>& seeds, absl::Time now);

  // Whether `token` allows this purpose in `job` (empty: the client named no
  // job).
  TokenVerdict Check(const v1::JoinToken& token, For purpose,
                     std::string_view job, absl::Time now) const;
  bool Knows(const std::string& id) const { return records_.contains(id); }
  // UNSPECIFIED: there is no such token.
  v1::Role RoleOf(const std::string& id) const;
  // Counts one use of a token, with which an agent was admitted.
  void Use(const std::string& id);

  // Adds a token that was just made, with the properties in `request`.
  // INVALID_ARGUMENT: role, lifetime or description are not valid.
  // RESOURCE_EXHAUSTED: the table is full of valid tokens.
  absl::Status Create(const v1::JoinToken& token,
                      const v1::CreateTokenRequest& request, absl::Time now);
  // `bound_to`: the job of the calling admin; empty: an admin of the daemon.
  // NOT_FOUND: there is no such token, or it is not only for that job.
  // FAILED_PRECONDITION: the token is the last valid admin token that does not
  // expire.
  absl::Status Revoke(const std::string& id, const std::string& bound_to,
                      absl::Time now);
  // Adds `fresh` with the properties of token `id` and its remaining lifetime
  // and uses, and revokes `id`. The successor of a kept token is kept and has a
  // full lifetime. Errors: those of Revoke and Create; then nothing has
  // changed.
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
  // Tokens for `job` and tokens for any job, in the order of their ids. If
  // `job` is empty: all tokens.
  std::vector<v1::TokenStatus> List(const std::string& job) const;

  // The changes that have to be journaled: records that were added or changed
  // since the last call of Saved, and ids of removed ones.
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

#endif  // ROLLCALL_DAEMON_SECURITY_SECRETS_TOKEN_TABLE_H_
