// Access: who may do what here, and the books of those who were turned away.
//
// It judges tokens and node credentials for the loop, says how long somebody
// who brings wrong ones waits for the answer, logs each refusal once and counts
// it. It closes nothing itself.
//
// Thread rule: the loop thread alone.
#ifndef ROLLCALL_DAEMON_SERVER_ACCESS_H_
#define ROLLCALL_DAEMON_SERVER_ACCESS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/journal/journal.h"
#include "daemon/security/failure_backoff.h"
#include "daemon/security/token_table.h"
#include "daemon/server/job_table.h"
#include "daemon/server/logger.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Who makes an admin call.
struct Caller {
  v1::JoinToken token;  // Empty: brought none.
  std::string address;
  // The connection, see PeerKey.
  std::string peer;
  // The job that its token is bound to; empty: none. Set by Permit.
  std::string bound_to;
};

// Somebody is turned away.
struct Denial {
  // Carries its RefusalCode, see WithRefusalCode.
  absl::Status status;
  // How long the answer waits.
  absl::Duration wait;
};

class Access {
 public:
  // Refusals of one address in a row that are logged; the rest is counted.
  static constexpr int kLoggedInARow = 5;

  // `credential_key`: of node credentials. `journal` may be null; it and
  // `logger` must outlive this.
  Access(std::string credential_key, std::vector<SeededToken> seeds,
         JournalStore* journal, Logger& logger);

  // Before anything else. `resume`: with the tokens that the journal has;
  // otherwise it forgets them. Errors as the journal's.
  absl::Status Start(bool resume);

  // Whether the caller may do this. `job`: the one it named, and, where it
  // named none, set to the one that its token is for. `doing`: for the log.
  std::optional<Denial> Permit(Caller& caller, TokenTable::For purpose,
                               const char* doing, std::string& job,
                               absl::Time now);

  // Whether this Hello is let in. `live` and `ended`: what there is of its job;
  // both may be null.
  std::optional<Denial> PermitHello(const v1::Hello& hello,
                                    const std::string& address,
                                    const LiveJob* live, const EndedJob* ended,
                                    absl::Time now);
  // It was let in by its token, for the first time.
  void Used(const v1::Hello& hello);
  // What the agent shows next time.
  std::string Credential(const std::string& run, const v1::Hello& hello) const;

  TokenTable& tokens() { return tokens_; }
  // Counts and logs one who has the right to enter, and not where he wants.
  void TurnedAway(const v1::Hello& hello, const std::string& address,
                  v1::RefusalCode code, absl::Time now);
  // Journals what has changed of the tokens; UNAVAILABLE: it could not, and
  // the next call tries again.
  absl::Status Commit();

  // By the names of RefusalCode in lower case, without prefix.
  const std::map<std::string, uint64_t>& refused() const { return refused_; }

 private:
  Denial Deny(const absl::Status& status, v1::RefusalCode code,
              const std::string& token_id, const std::string& who,
              const std::string& address, absl::Time now);

  const std::string credential_key_;
  const std::vector<SeededToken> seeds_;
  JournalStore* const journal_;
  Logger& logger_;
  TokenTable tokens_;
  FailureBackoff backoff_;
  // One entry a RefusalCode.
  std::map<std::string, uint64_t> refused_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_ACCESS_H_
