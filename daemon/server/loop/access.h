// Access: who may do what here, and counts of those who were refused.
//
// It judges tokens and node credentials for the loop, says how long somebody
// who brings wrong ones waits for the answer, logs each refusal once and counts
// it. It closes nothing itself.
//
// Thread rule: the loop thread alone.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_ACCESS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_ACCESS_H_

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
#include "daemon/security/token_table.h"
#include "daemon/server/loop/job_table.h"
#include "daemon/server/loop/logger.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Who makes an admin call.
struct Caller {
  v1::JoinToken token;  // Empty: brought none.
  std::string address;
  // The connection, see PeerKey.
  std::string peer;
  // Both set by Permit: the job that its token is bound to (empty: none), and
  // whether the token is an admin's. All others are bounded as viewers.
  std::string bound_to;
  bool admin = false;
};

// What one stranger can be taken to be: an IPv4 address, or an IPv6 /64, of
// which each customer has one.
std::string NetworkOf(const std::string& address);

// Somebody is turned away.
struct Denial {
  // Carries its RefusalCode, see WithRefusalCode.
  absl::Status status;
  // How long the answer waits.
  absl::Duration wait;
};

// What a Hello that is let in has shown beyond its right; for Attend.
struct Shown {
  // The epoch that its node credential was made for.
  uint64_t epoch = 0;
  // It holds a world that a daemon with the same shared secret committed.
  bool commit_proven = false;
  // The incarnations of hello.swept_nonces.
  std::vector<uint64_t> swept;
};

class Access {
 public:
  // Refusals of one address in a row that are logged; the rest is counted.
  static constexpr int kLoggedInARow = 5;

  // `journal` may be null; it and `logger` must outlive this. `keep`: see
  // ServerOptions::keep_token; empty: no token is replaced.
  Access(HandedKeys keys, std::vector<SeededToken> seeds, KeepToken keep,
         JournalStore* journal, Logger& logger,
         Machine& machine = RealMachine());

  // Before anything else. `resume`: with the tokens that the journal has;
  // otherwise it forgets them. Tokens that are due are replaced, their files
  // too. Errors as the journal's.
  absl::Status Start(bool resume);

  // Whether the caller may do this. `job`: the one it named, and, where it
  // named none, set to the one that its token is for. `doing`: for the log.
  std::optional<Denial> Permit(Caller& caller, TokenTable::For purpose,
                               const char* doing, std::string& job,
                               absl::Time now);

  // Whether its node name is one of its certificate's. For daemons that bind
  // them, before PermitHello.
  std::optional<Denial> PermitName(
      const v1::Hello& hello, const std::vector<std::string>& certificate_names,
      const std::string& address, absl::Time now);

  // Whether this Hello is let in. `live` and `ended`: what there is of its job;
  // both may be null.
  std::optional<Denial> PermitHello(const v1::Hello& hello,
                                    const std::string& address,
                                    const LiveJob* live, const EndedJob* ended,
                                    absl::Time now, Shown& shown);
  // A Hello was let in by this token (empty: by its credential), for the first
  // time.
  void Used(const v1::JoinToken& token);
  // What the agent of an ended job shows next time.
  std::string Credential(const std::string& run, const v1::Hello& hello,
                         uint64_t epoch) const;

  // Id of the token that a job which this Hello makes is counted for; empty:
  // for none, since an admin may make as many as the daemon can have.
  std::string MakerOf(const v1::Hello& hello) const;

  TokenTable& tokens() { return tokens_; }
  // Counts and logs one who has the right to enter, and not where he wants.
  void TurnedAway(const v1::Hello& hello, const std::string& address,
                  v1::RefusalCode code, absl::Time now);
  // Somebody with the right to enter asks for a node name that is taken. How
  // long the answer waits: from the fourth on, as for wrong tokens.
  absl::Duration NameTaken(const std::string& address, absl::Time now) {
    return names_taken_.Failed(NetworkOf(address), now);
  }
  // Replaces the kept tokens that are due at `now` by the wall clock, and makes
  // them known to the next Commit.
  void ReplaceTokens(absl::Time now);
  // The token `id` is replaced by `fresh`; errors as TokenTable::Rotate.
  absl::Status RotateToken(const std::string& id, const v1::JoinToken& fresh,
                           const std::string& bound_to, absl::Time now);
  // How long from `now`, by the wall clock, until ReplaceTokens or Commit has
  // to be called again.
  absl::Duration TokensDueIn(absl::Time now) const;
  // Journals what has changed of the tokens, and then writes those that were
  // replaced to their files; the next call tries again what failed.
  // UNAVAILABLE: the journal could not be written. Otherwise the error of the
  // file, for those who wait for it.
  absl::Status Commit(absl::Time now);

  // By the names of RefusalCode in lower case, without prefix.
  const std::map<std::string, uint64_t>& refused() const { return refused_; }

 private:
  absl::Status Journal();
  // The files of replaced tokens; the error of the last that failed.
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
  // Tokens that have taken a kept one's place and are not in its file yet, and
  // when the next try is due by the wall clock.
  std::map<v1::Role, v1::JoinToken> unwritten_;
  absl::Time write_at_ = absl::InfiniteFuture();
  // Why the last try failed; said once. Empty: it did not.
  std::map<v1::Role, std::string> not_kept_;
  FailureBackoff backoff_;
  // Of names that are taken.
  FailureBackoff names_taken_;
  // One entry a RefusalCode.
  std::map<std::string, uint64_t> refused_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_ACCESS_H_
