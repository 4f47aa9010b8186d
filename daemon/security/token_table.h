// TokenTable: the tokens of one daemon: who may do what, until when, how often.
//
// Decides and keeps count; journals nothing itself (Changed) and reads no
// clock. Holds digests of secrets, never a secret. Times are the wall clock's,
// since they must mean the same after a restart.
//
// Thread rule: one thread at a time; in practice the loop thread.
//
// Invariants:
//   1. At most limits' tokens_max records, and the few that the daemon is
//      started with. Those that are valid no more make
//      room for new ones; a valid one never does.
//   2. A revoked token is never valid again, however it is seeded.
//   3. A token that a daemon was started with ends with that: started without
//      it, the daemon does not know it any more. One that was replaced lives
//      until its own end, as long as its successor is known.
//   4. A kept token that ends is replaced at half of its lifetime; one that was
//      revoked at once.
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
  // It lies in a file of the daemon's, which is rewritten where the token is
  // replaced. One of a role at most.
  bool kept = false;
  // From when it is first seeded. Only of a kept one.
  absl::Duration lifetime = absl::InfiniteDuration();
};

// Writes a token that has taken the place of a kept one to where that lies.
using KeepToken =
    std::function<absl::Status(v1::Role role, const v1::JoinToken& token)>;

// What was found of a token that somebody brought.
struct TokenVerdict {
  absl::Status status;
  // UNSPECIFIED: it is good.
  v1::RefusalCode code = v1::REFUSAL_CODE_UNSPECIFIED;
  // The job that a good token is for; empty: any.
  std::string job;
  // Of a good token.
  v1::Role role = v1::ROLE_UNSPECIFIED;

  bool ok() const { return status.ok(); }
};

class TokenTable {
 public:
  // What a token is brought for.
  enum class For {
    kAttend,  // Costs a use.
    kReturn,  // As kAttend, and the use was paid before.
    kLead,    // To attend as the launcher's own agent; costs a use.
    kLook,
    kSteer,
  };

  // What a journal had; before any Seed.
  void Load(const std::vector<v1::TokenRecord>& records);
  // Takes up the tokens that the daemon is started with, once. One that is
  // known already, with the same secret, stays as it is; one that it was
  // started with before and is not now is forgotten. A lifetime begins `now`; a
  // known token keeps the end it has, and none if it has none.
  void Seed(const std::vector<SeededToken>& seeds, absl::Time now);

  // Whether `token` allows this in `job` (empty: none was named).
  TokenVerdict Check(const v1::JoinToken& token, For purpose,
                     std::string_view job, absl::Time now) const;
  bool Knows(const std::string& id) const { return records_.contains(id); }
  // UNSPECIFIED: there is no such token.
  v1::Role RoleOf(const std::string& id) const;
  // An agent got in with it.
  void Use(const std::string& id);

  // Takes up a token that was just made, as `request` wants it.
  // INVALID_ARGUMENT: role, lifetime or description break the grammar.
  // RESOURCE_EXHAUSTED: all there may be are valid.
  absl::Status Create(const v1::JoinToken& token,
                      const v1::CreateTokenRequest& request, absl::Time now);
  // `bound_to`: the job whose admin wants it; empty: the daemon's.
  // NOT_FOUND: there is none, or not for that job alone. FAILED_PRECONDITION:
  // nobody could make another one after it.
  absl::Status Revoke(const std::string& id, const std::string& bound_to,
                      absl::Time now);
  // Makes `fresh` like token `id`, with what is left of its time and uses, and
  // revokes that. A kept one is replaced, with a whole lifetime. Errors as
  // Revoke's and Create's; then nothing has changed.
  absl::Status Rotate(const std::string& id, const v1::JoinToken& fresh,
                      const std::string& bound_to, absl::Time now);
  // When the next kept token is to be replaced.
  absl::Time NextReplacement() const;
  // Puts `fresh` in the place of a kept token that is due. Returns the role;
  // nothing: none is due.
  std::optional<v1::Role> ReplaceDue(const v1::JoinToken& fresh,
                                     absl::Time now);
  // Of the kept token with this id; nothing: it is not a kept one.
  std::optional<v1::Role> KeptRole(const std::string& id) const;
  // Those of `job` and those for any job; empty: all. By id.
  std::vector<v1::TokenStatus> List(const std::string& job) const;

  // Records that are new or other than when last Saved, and ids that are gone:
  // what a journal has to learn.
  struct Changes {
    std::vector<v1::TokenRecord> written;
    std::vector<std::string> removed;
    bool empty() const { return written.empty() && removed.empty(); }
  };
  Changes Changed() const;
  void Saved();

 private:
  // A kept token as it was seeded, but for its secret.
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
  // NOT_FOUND: as Revoke says.
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
