#include "daemon/server/access.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "daemon/security/node_credential.h"
#include "daemon/server/refusal.h"

namespace rollcall {
namespace {

std::string Word(v1::RefusalCode code) {
  const std::string& name = v1::RefusalCode_Name(code);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "REFUSAL_CODE_"));
}

// What one stranger can be taken to be: an IPv4 address, or an IPv6 /64, of
// which each customer has one.
std::string NetworkOf(const std::string& address) {
  in6_addr six;
  if (inet_pton(AF_INET6, address.c_str(), &six) != 1) return address;
  return std::string(reinterpret_cast<const char*>(six.s6_addr), 8);
}

}  // namespace

Access::Access(std::string credential_key, std::vector<SeededToken> seeds,
               JournalStore* journal, Logger& logger)
    : credential_key_(std::move(credential_key)),
      seeds_(std::move(seeds)),
      journal_(journal),
      logger_(logger) {}

absl::Status Access::Start(bool resume) {
  if (journal_ != nullptr && resume) {
    const absl::StatusOr<std::vector<v1::TokenRecord>> records =
        journal_->LoadTokens();
    if (!records.ok()) return records.status();
    tokens_.Load(*records);
  } else if (journal_ != nullptr) {
    if (absl::Status s = journal_->DropTokens(); !s.ok()) return s;
  }
  tokens_.Seed(seeds_);
  return Commit();
}

std::optional<Denial> Access::Permit(Caller& caller, TokenTable::For purpose,
                                     const char* doing, std::string& job,
                                     absl::Time now) {
  const TokenVerdict verdict =
      tokens_.Check(caller.token, purpose, job, absl::Now());
  if (!verdict.ok()) {
    return Deny(verdict.status, verdict.code, caller.token.id(),
                absl::StrCat("doing=", doing), caller.address, now);
  }
  caller.bound_to = verdict.job;
  if (job.empty()) job = verdict.job;
  return std::nullopt;
}

std::optional<Denial> Access::PermitHello(const v1::Hello& hello,
                                          const std::string& address,
                                          const LiveJob* live,
                                          const EndedJob* ended,
                                          absl::Time now) {
  const std::string who =
      absl::StrCat("doing=attend job=", hello.job(), " node=", hello.node());
  if (hello.credential_case() != v1::Hello::kNodeCredential) {
    // Who got in and never heard of it costs no use, and may come back with a
    // token that is used up. To be the launcher's agent takes an admin's.
    const bool returns = live != nullptr && live->job.AwaitsWord(hello);
    const TokenTable::For purpose =
        hello.launcher()
            ? (returns ? TokenTable::For::kSteer : TokenTable::For::kLead)
            : (returns ? TokenTable::For::kReturn : TokenTable::For::kAttend);
    const TokenVerdict verdict =
        tokens_.Check(hello.token(), purpose, hello.job(), absl::Now());
    if (!verdict.ok()) {
      return Deny(verdict.status, verdict.code, hello.token().id(), who,
                  address, now);
    }
    // A token lets somebody in, and makes nobody somebody else.
    if (live != nullptr && live->job.HasCredential(hello)) {
      return Deny(absl::UnauthenticatedError(absl::StrCat(
                      "the agent of node ", hello.node(),
                      " is in already and has a credential; who comes back as "
                      "it must show that")),
                  v1::REFUSAL_CODE_CREDENTIAL, hello.token().id(), who, address,
                  now);
    }
    return std::nullopt;
  }
  // A credential goes back to its run, or hears of its end; it makes no other.
  const bool over =
      live == nullptr && (ended == nullptr || now >= ended->forgotten_at);
  if (over || !IsOwnCredential(credential_key_, hello)) {
    return Deny(absl::UnauthenticatedError(absl::StrCat(
                    "the credential is not the one that the agent of node ",
                    hello.node(), " was given; attend with the token")),
                v1::REFUSAL_CODE_CREDENTIAL, "", who, address, now);
  }
  if (live == nullptr) return std::nullopt;
  if (!live->job.IsRun(hello.run())) {
    // It may bring along what this daemon has no memory of.
    if (live->job.MayAdopt()) return std::nullopt;
    return Deny(absl::AbortedError(absl::StrCat("job ", hello.job(),
                                                " is in run ", live->job.run(),
                                                " now, not ", hello.run(),
                                                ": its name was used "
                                                "again")),
                v1::REFUSAL_CODE_OTHER_RUN, "", who, address, now);
  }
  if (!live->job.CredentialStands(hello)) {
    return Deny(absl::AbortedError(absl::StrCat(
                    "a newer agent has taken the place of this one on node ",
                    hello.node())),
                v1::REFUSAL_CODE_REPLACED, "", who, address, now);
  }
  return std::nullopt;
}

void Access::Used(const v1::Hello& hello) {
  if (hello.has_token()) tokens_.Use(hello.token().id());
}

std::string Access::Credential(const std::string& run,
                               const v1::Hello& hello) const {
  return NodeCredential(credential_key_, hello.job(), run, hello.node(),
                        hello.incarnation(), hello.launcher());
}

absl::Status Access::Commit() {
  if (journal_ == nullptr) return absl::OkStatus();
  const TokenTable::Changes changes = tokens_.Changed();
  if (changes.empty()) return absl::OkStatus();
  absl::Status saved = journal_->SaveTokens(changes.written, changes.removed);
  if (saved.ok()) tokens_.Saved();
  return saved;
}

void Access::TurnedAway(const v1::Hello& hello, const std::string& address,
                        v1::RefusalCode code, absl::Time now) {
  Deny(absl::OkStatus(), code, hello.token().id(),
       absl::StrCat("doing=attend job=", hello.job(), " node=", hello.node()),
       address, now);
}

Denial Access::Deny(const absl::Status& status, v1::RefusalCode code,
                    const std::string& token_id, const std::string& who,
                    const std::string& address, absl::Time now) {
  ++refused_[Word(code)];
  const std::string from = NetworkOf(address);
  const absl::Duration wait = backoff_.Failed(from, now);
  const int failures = backoff_.failures(from);
  if (failures <= kLoggedInARow) {
    // An id that is not ours could be anything, a misplaced secret too.
    const bool ours = tokens_.Knows(token_id);
    logger_.Write(
        Log::Level::kWarning,
        absl::StrCat("event=denied code=", Word(code), " address=", address,
                     " ", who, ours ? absl::StrCat(" token=", token_id) : "",
                     failures == kLoggedInARow
                         ? " note=\"further ones from there are only counted\""
                         : ""));
  }
  return Denial{WithRefusalCode(status, code), wait};
}

}  // namespace rollcall
