#include "daemon/server/leader/leader_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/text/hex.h"
#include "daemon/base/text/printable.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {
namespace {

constexpr size_t kInboxMax = 1024;
constexpr size_t kKeyBytes = 32;
constexpr absl::Duration kPatience = absl::Seconds(5);
// If the state cannot be restored now, this daemon waits this long before it
// resigns, so that daemons do not pass the lead to each other in a tight loop.
constexpr absl::Duration kPause = absl::Seconds(2);

// The key of node credentials, created by the first leader.
absl::StatusOr<std::string> SharedKey(KeyValueStore& client,
                                      const ValueSealer& sealer,
                                      const std::string& prefix) {
  const absl::StatusOr<std::string> hex =
      KeepInEtcd(client, sealer, absl::StrCat(prefix, "credential.key"),
                 absl::BytesToHexString(RandomBytes(kKeyBytes)), kPatience);
  if (!hex.ok()) return hex.status();
  const bool fits =
      hex->size() == 2 * kKeyBytes &&
      hex->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (fits) return FromHex(*hex);
  return absl::FailedPreconditionError(
      absl::StrCat("etcd, ", prefix, "credential.key: expected ", 2 * kKeyBytes,
                   " hex digits, got others; remove it (etcdctl del)"));
}

}  // namespace

LeaderSession::LeaderSession(Options options, KeyValueStore& client,
                             CurrentLoop& current_loop, Logger& logger)
    : options_(std::move(options)),
      current_loop_(current_loop),
      logger_(logger),
      client_(client),
      inbox_(kInboxMax, *options_.loop.machine) {
  current_loop_.Shut(NotLeader({}));
  leadership_ = std::make_unique<Leadership>(
      client_, options_.prefix, options_.endpoints, options_.sealer,
      Leadership::Callbacks{[this](const LeaderTerm& leader_term) {
                              inbox_.PostAlways(leader_term);
                            },
                            [this](const std::string& why) {
                              inbox_.PostAlways(LostLeadership{why});
                            },
                            [this](const std::vector<std::string>& endpoints) {
                              inbox_.PostAlways(OtherLeads{endpoints});
                            }},
      *options_.loop.machine);
  thread_ = options_.loop.machine->Start([this] { Run(); });
}

LeaderSession::~LeaderSession() { Stop(); }

void LeaderSession::Stop() {
  if (thread_ == nullptr) return;
  inbox_.PostAlways(Quit{});
  thread_->Join();
  thread_.reset();
  leadership_.reset();
}

void LeaderSession::Run() {
  while (!quit_) {
    Take(ReadTokensAt() - Now());
    while (!inputs_.empty() && !quit_) {
      const Input input = std::move(inputs_.front());
      inputs_.pop_front();
      std::visit([this](const auto& one) { On(one); }, input);
    }
    // A standby daemon reads the tokens again, because the leader may have
    // replaced them. It creates none, because the leader would not know them.
    if (!quit_ && ReadTokensAt() <= Now()) {
      TellUnread(ReadTokens(/*make=*/false));
    }
  }
}

void LeaderSession::Take(absl::Duration patience) {
  for (Input& input : inbox_.Take(patience)) {
    inputs_.push_back(std::move(input));
  }
}

void LeaderSession::On(const LeaderTerm& leader_term) {
  const absl::Status taken = TakeUp(leader_term);
  if (taken.ok()) {
    current_loop_.Open(loop_->inbox());
    logger_.Write(
        Log::Level::kInfo,
        absl::StrCat("event=leads term=", leader_term.create_revision,
                     " endpoints=", absl::StrJoin(options_.endpoints, ",")));
    return;
  }
  logger_.Write(Log::Level::kError,
                absl::StrCat("event=not_taken_up reason=",
                             Quoted(std::string(taken.message()))));
  EndLoop(NotLeader({}));
  // The inputs come in order, so the end of this LeaderTerm comes before the
  // next LeaderTerm.
  if (inputs_.empty()) Take(kPause);
  leadership_->Resign(leader_term, "the state in etcd could not be restored");
}

absl::Status LeaderSession::TakeUp(const LeaderTerm& leader_term) {
  const auto leads = [this, leader_term] {
    return leadership_->Leads(leader_term);
  };
  absl::StatusOr<std::unique_ptr<EtcdJournal>> journal = EtcdJournal::Open(
      client_, {options_.prefix, leader_term, leads,
                [this, leader_term](std::string why) {
                  leadership_->Resign(leader_term, std::move(why));
                },
                options_.sealer});
  if (!journal.ok()) return journal.status();
  Loop::Options options = options_.loop;
  if (options.credential_key.empty()) {
    absl::StatusOr<std::string> key =
        SharedKey(client_, options_.sealer, options_.prefix);
    if (!key.ok()) return key.status();
    options.credential_key = *std::move(key);
  }
  options.resume = true;
  options.leads = leads;
  journal_ = *std::move(journal);
  if (options_.tokens_in_etcd) {
    if (absl::Status read = ReadTokens(/*make=*/true); !read.ok()) return read;
    options.tokens = tokens_.Seeds(std::nullopt, options_.token_ttl);
    options.keep_token = [this](v1::Role role, const v1::JoinToken& token) {
      const absl::Status wrote =
          journal_->WriteValue(EtcdTokenName(role), TokenText(token));
      if (!wrote.ok()) return wrote;
      return options_.loop.keep_token ? options_.loop.keep_token(role, token)
                                      : absl::OkStatus();
    };
  }
  loop_ = std::make_unique<Loop>(std::move(options), journal_.get(), logger_);
  return loop_->Start();
}

absl::Time LeaderSession::ReadTokensAt() const {
  if (!options_.tokens_in_etcd || loop_ != nullptr) {
    return absl::InfiniteFuture();
  }
  // A token is replaced at half of its lifetime. An eighth is early enough to
  // read the new token before the old one expires.
  return read_tokens_ +
         std::clamp(options_.token_ttl / 8, absl::Seconds(1), absl::Hours(1));
}

// The same reason is logged once.
void LeaderSession::TellUnread(const absl::Status& read) {
  const std::string reason(read.message());
  if (std::exchange(unread_, reason) == reason || read.ok()) return;
  logger_.Write(Log::Level::kError,
                absl::StrCat("event=tokens_not_read reason=", Quoted(reason)));
}

absl::Status LeaderSession::ReadTokens(bool make) {
  read_tokens_ = Now();
  absl::StatusOr<KeptTokens> read = KeepTokensInEtcd(
      client_, options_.sealer, options_.prefix, make, kPatience);
  if (!read.ok()) return read.status();
  const auto keep = [this](v1::Role role, const v1::JoinToken& now,
                           v1::JoinToken& before) {
    if (now.id() == before.id() && now.secret() == before.secret()) return;
    before = now;
    if (!options_.loop.keep_token) return;
    const absl::Status wrote = options_.loop.keep_token(role, now);
    const std::string reason(wrote.message());
    const bool said = std::exchange(not_kept_[role], reason) == reason;
    if (wrote.ok()) {
      return logger_.Write(Log::Level::kInfo,
                           absl::StrCat("event=token_kept role=",
                                        RoleWord(role), " token=", now.id()));
    }
    before.Clear();  // Retried at the next read.
    if (said) return;
    logger_.Write(Log::Level::kError,
                  absl::StrCat("event=token_not_kept role=", RoleWord(role),
                               " reason=", Quoted(reason)));
  };
  tokens_ = *std::move(read);
  keep(v1::ROLE_ADMIN, tokens_.admin, told_.admin);
  keep(v1::ROLE_WORKER, tokens_.worker, told_.worker);
  return absl::OkStatus();
}

void LeaderSession::On(const LostLeadership& lost_leadership) {
  EndLoop(NotLeader({}));
  // etcd may not answer now, and another leader's word should not wait for it.
  read_tokens_ = Now();
  logger_.Write(Log::Level::kWarning,
                absl::StrCat("event=lost_leadership reason=",
                             Quoted(lost_leadership.why)));
}

void LeaderSession::On(const OtherLeads& other) {
  current_loop_.Shut(NotLeader(other.endpoints));
  logger_.Write(
      Log::Level::kInfo,
      absl::StrCat("event=stands_by leader=",
                   other.endpoints.empty()
                       ? "none"
                       : Quoted(absl::StrJoin(other.endpoints, ","))));
}

void LeaderSession::On(const Quit&) {
  quit_ = true;
  EndLoop(absl::UnavailableError("the daemon is shutting down; dial again"));
}

void LeaderSession::EndLoop(const absl::Status& why) {
  current_loop_.Shut(why);
  if (loop_ != nullptr) loop_->Stop(why);
  loop_.reset();
  journal_.reset();
}

}  // namespace rollcall
