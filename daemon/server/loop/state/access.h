// Access: authentication and authorization, and counts of refusals.
//
// It checks tokens and node credentials for the loop, and determines how long
// the answer to a wrong one is delayed. It counts each refusal, and logs it
// unless the address was refused too often in a row. It closes no connection
// itself.
//
// Thread rule: the loop thread only.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_ACCESS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_ACCESS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/base/machine.h"
#include "daemon/journal/journal.h"
#include "daemon/security/failure_backoff.h"
#include "daemon/security/secrets/token_table.h"
#include "daemon/server/loop/state/job_table.h"
#include "daemon/server/loop/state/logger.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The caller of an admin call.
struct Caller {
  v1::JoinToken token;  // Empty: it has none.
  std::string address;
  // The key of the caller's connection, see PeerKey.
  std::string peer;
  // Set by Permit: the job to which the caller's token is bound (empty: none),
  // and whether it is an admin's token. Callers with other tokens are bounded
  // as viewers.
  std::string bound_to;
  bool admin = false;
};

// The key under which `address` is counted as one peer: an IPv4 address, or the
// /64 of an IPv6 address, because one customer usually has a whole /64.
std::string NetworkOf(const std::string& address);

// A refusal.
struct Denial {
  // The status carries a RefusalCode, see WithRefusalCode.
  absl::Status status;
  // How long the answer is delayed.
  absl::Duration wait;
};

// What an admitted Hello has proved besides its right to attend. It is passed
// on in the event Attend.
struct Shown {
  // The epoch of the agent's node credential.
  uint64_t epoch = 0;
  // The agent has a world that a daemon with the same shared secret committed.
  bool commit_proven = false;
  // The incarnations of hello.swept_nonces.
  std::vector<uint64_t> swept;
};

class Access {
 public:
  // How many consecutive refusals of one address are logged; further ones are
  // only counted.
  static constexpr int kLoggedInARow = 5;

  // `journal` may be null. `journal` and `logger` must outlive this. `keep`:
  // see ServerOptions::keep_token; empty: no token is replaced.
  Access(HandedKeys keys, std::vector<SeededToken> seeds, KeepToken keep,
         JournalStore* journal, Logger& logger,
         Machine& machine = RealMachine());

  // Must be called first. `resume`: loads the journaled tokens; otherwise they
  // are removed. Replaces the tokens that are due, also in their files. Errors:
  // those of the journal.
  absl::Status Start(bool resume);

  // Whether the caller may do this; nullopt: it may. `job`: the job that the
  // caller named; if it named none, Permit sets it to the job of its token.
  // `doing`: the name of the call in the log.
  std::optional<Denial> Permit(Caller& caller, TokenTable::For purpose,
                               const char* doing, std::string& job,
                               absl::Time now);

  // Whether the node name is one of the certificate's names; nullopt: it is.
  // Used by daemons that bind names; call it before PermitHello.
  std::optional<Denial> PermitName(
      const v1::Hello& hello, const std::vector<std::string>& certificate_names,
      const std::string& address, absl::Time now);

  // Whether the client of this introduction may send its Hello; nullopt: it
  // may. PermitHello follows, which also checks what only the Hello shows.
  std::optional<Denial> PermitIntroduction(const v1::Hello& hello,
                                           const std::string& address,
                                           const LiveJob* live, absl::Time now);
  // Whether this Hello is admitted; nullopt: it is. `live` and `ended`: the job
  // of the Hello; both may be null.
  std::optional<Denial> PermitHello(const v1::Hello& hello,
                                    const std::string& address,
                                    const LiveJob* live, const EndedJob* ended,
                                    absl::Time now, Shown& shown);
  // Counts one use of this token. Call it once for each agent that the token
  // admits. An empty token (of a Hello with a credential) has no effect.
  void Used(const v1::JoinToken& token);
  // Returns a new credential for an agent of an ended job.
  std::string Credential(const std::string& run, const v1::Hello& hello,
                         uint64_t epoch) const;

  // Id of the token to which a job that this Hello creates is counted. Empty:
  // to none, because an admin may create as many jobs as the daemon allows.
  std::string MakerOf(const v1::Hello& hello) const;

  TokenTable& tokens() { return tokens_; }
  // Counts and logs a Hello that is authenticated but not admitted to its job.
  void TurnedAway(const v1::Hello& hello, const std::string& address,
                  v1::RefusalCode code, absl::Time now);
  // An authenticated peer requests a node name that is taken. Returns how long
  // the answer is delayed. The delays are those for wrong tokens, counted
  // separately.
  absl::Duration NameTaken(const std::string& address, absl::Time now) {
    return names_taken_.Failed(NetworkOf(address), now);
  }
  // Replaces the kept tokens that are due at `now` (wall clock); the next
  // Commit journals them.
  void ReplaceTokens(absl::Time now);
  // Replaces the token `id` by `fresh`. Errors: those of TokenTable::Rotate.
  absl::Status RotateToken(const std::string& id, const v1::JoinToken& fresh,
                           const std::string& bound_to, absl::Time now);
  // Time from `now` (wall clock) until ReplaceTokens or Commit must be called
  // again.
  absl::Duration TokensDueIn(absl::Time now) const;
  // Journals changed tokens, then writes new tokens, which have replaced kept
  // ones, to their files. A later call retries what failed. UNAVAILABLE: the
  // journal could not be written. If a file could not be written, returns that
  // error, for callers that wait for the file.
  absl::Status Commit(absl::Time now);

  // Keys: the names of RefusalCode in lower case, without prefix.
  const std::map<std::string, uint64_t>& refused() const { return refused_; }

 private:
  absl::Status Journal();
  // Writes the files of tokens that were replaced; returns the last error.
  absl::Status WriteKept(absl::Time now);
  std::optional<Denial> PermitToken(const v1::Hello& hello,
                                    const std::string& address,
                                    const LiveJob* live, absl::Time now);
  std::optional<Denial> PermitCredential(const v1::Hello& hello,
                                         const std::string& address,
                                         const LiveJob* live,
                                         const EndedJob* ended, absl::Time now,
                                         Shown& shown);
  Denial Deny(const absl::Status& status, v1::RefusalCode code,
              const std::string& token_id, const std::string& who,
              const std::string& address, absl::Time now);

  const HandedKeys keys_;
  const std::vector<SeededToken> seeds_;
  const KeepToken keep_;
  JournalStore* const journal_;
  Logger& logger_;
  Machine& machine_;
  TokenTable tokens_;
  // New tokens that have replaced kept ones and are not in their files yet; and
  // when the next try to write them is due (wall clock).
  std::map<v1::Role, v1::JoinToken> unwritten_;
  absl::Time write_at_ = absl::InfiniteFuture();
  // Why the last try failed for each role, so that the same reason is logged
  // once. Empty: it succeeded.
  std::map<v1::Role, std::string> not_kept_;
  FailureBackoff backoff_;
  // Counts requests for node names that are taken.
  FailureBackoff names_taken_;
  // One entry per RefusalCode.
  std::map<std::string, uint64_t> refused_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_ACCESS_H_
