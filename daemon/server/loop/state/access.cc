#include "daemon/server/loop/state/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"
#include "daemon/security/secrets/commit_proof.h"
#include "daemon/security/secrets/incarnation_nonce.h"
#include "daemon/security/secrets/node_credential.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {

// A refusal reaches its client before another connection may displace it.
static_assert(FailureBackoff::kDelayMax < ConnectionLimits{}.handshake_time);

namespace {

// How many names of a certificate a refusal shows.
constexpr size_t kNamesShown = 4;

std::string Word(v1::RefusalCode code) {
  const std::string& name = v1::RefusalCode_Name(code);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "REFUSAL_CODE_"));
}

// Used if there is no function that writes tokens to their files. Then no token
// is replaced.
std::vector<SeededToken> WithoutKept(std::vector<SeededToken> seeds) {
  for (SeededToken& seed : seeds) {
    seed.kept = false;
    seed.lifetime = absl::InfiniteDuration();
  }
  return seeds;
}

}  // namespace

std::string NetworkOf(const std::string& address) {
  in6_addr six;
  if (inet_pton(AF_INET6, address.c_str(), &six) != 1) return address;
  return std::string(reinterpret_cast<const char*>(six.s6_addr), 8);
}

Access::Access(HandedKeys keys, std::vector<SeededToken> seeds, KeepToken keep,
               JournalStore* journal, Logger& logger, Machine& machine)
    : keys_(std::move(keys)),
      seeds_(keep ? std::move(seeds) : WithoutKept(std::move(seeds))),
      keep_(std::move(keep)),
      journal_(journal),
      logger_(logger),
      machine_(machine) {}

absl::Status Access::Start(bool resume) {
  if (journal_ != nullptr && resume) {
    const absl::StatusOr<std::vector<v1::TokenRecord>> records =
        journal_->LoadTokens();
    if (!records.ok()) return records.status();
    tokens_.Load(*records);
  } else if (journal_ != nullptr) {
    if (absl::Status s = journal_->DropTokens(); !s.ok()) return s;
  }
  tokens_.Seed(seeds_, machine_.WallNow());
  ReplaceTokens(machine_.WallNow());
  if (absl::Status saved = Journal(); !saved.ok()) return saved;
  // The files are written before the daemon reports that it listens, so that
  // readers find them. A file that cannot be written is logged and tried again.
  WriteKept(machine_.WallNow()).IgnoreError();
  return absl::OkStatus();
}

std::optional<Denial> Access::Permit(Caller& caller, TokenTable::For purpose,
                                     const char* doing, std::string& job,
                                     absl::Time now) {
  const TokenVerdict verdict =
      tokens_.Check(caller.token, purpose, job, machine_.WallNow());
  if (!verdict.ok()) {
    return Deny(verdict.status, verdict.code, caller.token.id(),
                absl::StrCat("doing=", doing), caller.address, now);
  }
  caller.bound_to = verdict.job;
  caller.admin = verdict.role == v1::ROLE_ADMIN;
  if (job.empty()) job = verdict.job;
  return std::nullopt;
}

std::optional<Denial> Access::PermitName(
    const v1::Hello& hello, const std::vector<std::string>& certificate_names,
    const std::string& address, absl::Time now) {
  std::vector<std::string> shown;
  for (const std::string& name : certificate_names) {
    if (absl::EqualsIgnoreCase(name, hello.node())) return std::nullopt;
    if (shown.size() < kNamesShown) shown.push_back(Printable(name, 256));
  }
  const std::string found = shown.empty() ? "none" : absl::StrJoin(shown, ", ");
  return Deny(
      absl::PermissionDeniedError(absl::StrCat(
          "node name: expected one that the client's certificate is for (",
          found, "), got ", hello.node(),
          "; give that one with --name, or a certificate for this name with "
          "--tls-cert")),
      v1::REFUSAL_CODE_UNAUTHENTICATED, "",
      absl::StrCat("doing=attend job=", hello.job(), " node=", hello.node(),
                   " certificate=", Quoted(found)),
      address, now);
}

std::optional<Denial> Access::PermitIntroduction(const v1::Hello& hello,
                                                 const std::string& address,
                                                 const LiveJob* live,
                                                 absl::Time now) {
  if (!hello.has_node_credential()) {
    return PermitToken(hello, address, live, now);
  }
  // If the credential is for a run that this daemon does not know, only the
  // Hello's world can prove that run.
  const std::optional<CredentialTerms> terms =
      TermsOfCredential(keys_.credential, hello);
  const bool own_run = live != nullptr && live->job.IsRun(hello.run());
  if (terms.has_value() && !own_run && machine_.WallNow() < terms->ends_at) {
    return std::nullopt;
  }
  Shown shown;
  return PermitCredential(hello, address, live, /*ended=*/nullptr, now, shown);
}

std::optional<Denial> Access::PermitHello(const v1::Hello& hello,
                                          const std::string& address,
                                          const LiveJob* live,
                                          const EndedJob* ended, absl::Time now,
                                          Shown& shown) {
  for (const std::string& nonce : hello.swept_nonces()) {
    shown.swept.push_back(IncarnationOf(hello.job(), hello.node(), nonce));
  }
  return hello.has_node_credential()
             ? PermitCredential(hello, address, live, ended, now, shown)
             : PermitToken(hello, address, live, now);
}

std::optional<Denial> Access::PermitToken(const v1::Hello& hello,
                                          const std::string& address,
                                          const LiveJob* live, absl::Time now) {
  const std::string who =
      absl::StrCat("doing=attend job=", hello.job(), " node=", hello.node());
  // An agent that was admitted but may not have received its Welcome does not
  // use up the token again, and may come back with a token that is used up. A
  // launcher's agent needs an admin's token.
  const bool returns = live != nullptr && live->job.AwaitsWord(hello);
  const TokenTable::For purpose =
      hello.launcher()
          ? (returns ? TokenTable::For::kSteer : TokenTable::For::kLead)
          : (returns ? TokenTable::For::kReturn : TokenTable::For::kAttend);
  const TokenVerdict verdict =
      tokens_.Check(hello.token(), purpose, hello.job(), machine_.WallNow());
  if (!verdict.ok()) {
    return Deny(verdict.status, verdict.code, hello.token().id(), who, address,
                now);
  }
  // A token admits a new agent; it does not prove that an agent was admitted
  // before.
  if (live != nullptr && live->job.HasCredential(hello)) {
    return Deny(absl::UnauthenticatedError(absl::StrCat(
                    "the agent of node ", hello.node(),
                    " is attended already and has a credential; to come back "
                    "as this agent, show that credential")),
                v1::REFUSAL_CODE_CREDENTIAL, hello.token().id(), who, address,
                now);
  }
  return std::nullopt;
}

std::optional<Denial> Access::PermitCredential(const v1::Hello& hello,
                                               const std::string& address,
                                               const LiveJob* live,
                                               const EndedJob* ended,
                                               absl::Time now, Shown& shown) {
  const auto deny = [&](const absl::Status& status, v1::RefusalCode code) {
    return Deny(
        status, code, "",
        absl::StrCat("doing=attend job=", hello.job(), " node=", hello.node()),
        address, now);
  };
  const std::optional<CredentialTerms> terms =
      TermsOfCredential(keys_.credential, hello);
  const bool over =
      live == nullptr && (ended == nullptr || now >= ended->forgotten_at);
  // A credential is valid for its run, and for learning how that run ended. It
  // cannot begin another run, unless the Hello has the world that proves its
  // run.
  if (!terms.has_value() || (over && keys_.proof.empty())) {
    return deny(absl::UnauthenticatedError(absl::StrCat(
                    "the credential is not the one that the agent of node ",
                    hello.node(), " was given; attend with a token")),
                v1::REFUSAL_CODE_CREDENTIAL);
  }
  // If the wall clock was set forward, the agents' latest credentials have not
  // ended for this daemon, so their ranks run on.
  if (machine_.WallNow() >= terms->ends_at &&
      (live == nullptr || !live->job.ShowsRecentCredential(hello, now))) {
    return deny(absl::UnauthenticatedError(absl::StrCat(
                    "the credential of node ", hello.node(), " ended at ",
                    absl::FormatTime(terms->ends_at, absl::UTCTimeZone()),
                    "; attend with a token, or check the daemon's clock")),
                v1::REFUSAL_CODE_CREDENTIAL);
  }
  shown.epoch = terms->epoch;
  if (over) {
    shown.commit_proven = HoldsCommitProof(keys_.proof, hello);
    if (shown.commit_proven) return std::nullopt;
    return Denial{absl::UnavailableError(absl::StrCat(
                      "this daemon has no memory of job ", hello.job(),
                      ", and this agent brings no world of it; dial again")),
                  absl::ZeroDuration()};
  }
  const bool own_run = live == nullptr ? hello.run() == ended->status.run()
                                       : live->job.IsRun(hello.run());
  if (!own_run) {
    // The credential is for another run than the one that has ended.
    // AnswerEnded tells the agent so.
    if (live == nullptr) return std::nullopt;
    // The agent may have a world of a run that this daemon has no memory of.
    if (live->job.MayAdopt()) {
      shown.commit_proven = HoldsCommitProof(keys_.proof, hello);
      return std::nullopt;
    }
    return deny(absl::AbortedError(absl::StrCat(
                    "job ", hello.job(), " is in run ", live->job.run(),
                    " now, not ", hello.run(), ": its name was used again")),
                v1::REFUSAL_CODE_OTHER_RUN);
  }
  // This is checked before the epoch, because a replaced incarnation must not
  // come back with a token either.
  if (live != nullptr && !live->job.CredentialStands(hello)) {
    return deny(absl::AbortedError(absl::StrCat(
                    "another agent has taken the place of this one on node ",
                    hello.node())),
                v1::REFUSAL_CODE_REPLACED);
  }
  const NodeEpochs& epochs =
      live == nullptr ? ended->node_epochs : live->job.EpochsOf(hello.run());
  // An agent that was away when its node was evicted must not come back with
  // its token.
  if (epochs.WasRaisedPast(hello.node(), terms->epoch)) {
    return deny(absl::PermissionDeniedError(absl::StrCat(
                    "node ", hello.node(), " was evicted or drained from job ",
                    hello.job(),
                    ", or another agent has taken its place; to bring it back, "
                    "start an agent with a valid token")),
                v1::REFUSAL_CODE_EVICTED);
  }
  if (terms->epoch != epochs.EpochOf(hello.node())) {
    return deny(absl::UnauthenticatedError(
                    absl::StrCat("the credential of node ", hello.node(),
                                 " is no longer known; attend with a token")),
                v1::REFUSAL_CODE_CREDENTIAL);
  }
  return std::nullopt;
}

void Access::Used(const v1::JoinToken& token) {
  if (!token.id().empty()) tokens_.Use(token.id());
}

std::string Access::Credential(const std::string& run, const v1::Hello& hello,
                               uint64_t epoch) const {
  return NodeCredential(keys_.credential, run, hello,
                        {epoch, machine_.WallNow() + Limits().credential_ttl});
}

std::string Access::MakerOf(const v1::Hello& hello) const {
  const std::string& id = hello.token().id();
  return tokens_.RoleOf(id) == v1::ROLE_ADMIN ? "" : id;
}

void Access::ReplaceTokens(absl::Time now) {
  while (tokens_.NextReplacement() <= now) {
    const v1::JoinToken fresh = MakeToken();
    const std::optional<v1::Role> role = tokens_.ReplaceDue(fresh, now);
    if (!role.has_value()) return;
    unwritten_[*role] = fresh;
    write_at_ = now;
    logger_.Write(Log::Level::kInfo,
                  absl::StrCat("event=token_replaced role=", RoleWord(*role),
                               " token=", fresh.id()));
  }
}

absl::Status Access::RotateToken(const std::string& id,
                                 const v1::JoinToken& fresh,
                                 const std::string& bound_to, absl::Time now) {
  const std::optional<v1::Role> role = tokens_.KeptRole(id);
  absl::Status rotated = tokens_.Rotate(id, fresh, bound_to, now);
  if (rotated.ok() && role.has_value()) {
    unwritten_[*role] = fresh;
    write_at_ = now;
  }
  return rotated;
}

absl::Duration Access::TokensDueIn(absl::Time now) const {
  const absl::Time due = std::min(tokens_.NextReplacement(), write_at_);
  return std::max(due - now, absl::ZeroDuration());
}

absl::Status Access::Commit(absl::Time now) {
  if (absl::Status saved = Journal(); !saved.ok()) {
    // A file never contains a token that the journal lacks.
    if (!unwritten_.empty()) write_at_ = now + Limits().token_file_retry;
    return saved;
  }
  return WriteKept(now);
}

absl::Status Access::WriteKept(absl::Time now) {
  if (now < write_at_) return absl::OkStatus();
  absl::Status failed;
  for (auto at = unwritten_.begin(); at != unwritten_.end();) {
    absl::Status wrote = keep_(at->first, at->second);
    const std::string reason(wrote.message());
    const bool said = std::exchange(not_kept_[at->first], reason) == reason;
    if (wrote.ok()) {
      at = unwritten_.erase(at);
      continue;
    }
    if (!said) {
      logger_.Write(
          Log::Level::kError,
          absl::StrCat("event=token_not_kept role=", RoleWord(at->first),
                       " reason=", Quoted(reason)));
    }
    failed = std::move(wrote);
    ++at;
  }
  write_at_ = unwritten_.empty() ? absl::InfiniteFuture()
                                 : now + Limits().token_file_retry;
  return failed;
}

absl::Status Access::Journal() {
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
    // Only known ids are logged, because another text may be a misplaced
    // secret.
    const bool ours = tokens_.Knows(token_id);
    logger_.Write(
        Log::Level::kWarning,
        absl::StrCat(
            "event=denied code=", Word(code), " address=", address, " ", who,
            ours ? absl::StrCat(" token=", token_id) : "",
            failures == kLoggedInARow
                ? " note=\"further refusals of this address are only counted\""
                : ""));
  }
  return Denial{WithRefusalCode(status, code), wait};
}

}  // namespace rollcall
