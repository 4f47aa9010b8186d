#include "daemon/server/leader/succession.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/hex.h"
#include "daemon/base/printable.h"
#include "daemon/security/digest.h"
#include "daemon/security/token.h"
#include "daemon/server/loop/refusal.h"

namespace rollcall {
namespace {

constexpr size_t kInboxMost = 1024;
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

Succession::Succession(Options options, KeyValueStore& client, LoopDoor& door,
                       Logger& logger)
    : options_(std::move(options)),
      door_(door),
      logger_(logger),
      client_(client),
      inbox_(kInboxMost, *options_.loop.machine) {
  door_.Shut(NotLeader({}));
  leadership_ = std::make_unique<Leadership>(
      client_, options_.prefix, options_.endpoints, options_.sealer,
      Leadership::Callbacks{
          [this](const Reign& reign) { inbox_.PostAlways(reign); },
          [this](const std::string& why) { inbox_.PostAlways(Deposed{why}); },
          [this](const std::vector<std::string>& endpoints) {
            inbox_.PostAlways(OtherLeads{endpoints});
          }},
      *options_.loop.machine);
  thread_ = options_.loop.machine->Start([this] { Run(); });
}

Succession::~Succession() { Stop(); }

void Succession::Stop() {
  if (thread_ == nullptr) return;
  inbox_.PostAlways(Quit{});
  thread_->Join();
  thread_.reset();
  leadership_.reset();
}

void Succession::Run() {
  while (!quit_) {
    Take(ReadTokensIn());
    // A standby daemon reads the tokens again, since the leader may have
    // replaced them. It creates none: the leader would refuse them.
    if (inputs_.empty() && loop_ == nullptr) {
      TellUnread(ReadTokens(/*make=*/false));
    }
    while (!inputs_.empty() && !quit_) {
      const Input input = std::move(inputs_.front());
      inputs_.pop_front();
      std::visit([this](const auto& one) { On(one); }, input);
    }
  }
}

void Succession::Take(absl::Duration patience) {
  for (Input& input : inbox_.Take(patience)) {
    inputs_.push_back(std::move(input));
  }
}

void Succession::On(const Reign& reign) {
  const absl::Status taken = TakeUp(reign);
  if (taken.ok()) {
    door_.Open(loop_->inbox());
    logger_.Write(
        Log::Level::kInfo,
        absl::StrCat("event=leads reign=", reign.create_revision,
                     " endpoints=", absl::StrJoin(options_.endpoints, ",")));
    return;
  }
  logger_.Write(Log::Level::kError,
                absl::StrCat("event=not_taken_up reason=",
                             Quoted(std::string(taken.message()))));
  EndLoop(NotLeader({}));
  // The inputs are in order: the end of this Reign comes before the next one.
  if (inputs_.empty()) Take(kPause);
  leadership_->Abdicate(reign, "the state in etcd could not be restored");
}

absl::Status Succession::TakeUp(const Reign& reign) {
  const auto leads = [this, reign] { return leadership_->Leads(reign); };
  absl::StatusOr<std::unique_ptr<EtcdJournal>> journal = EtcdJournal::Open(
      client_, {options_.prefix, reign, leads,
                [this, reign](std::string why) {
                  leadership_->Abdicate(reign, std::move(why));
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

absl::Duration Succession::ReadTokensIn() const {
  if (!options_.tokens_in_etcd || loop_ != nullptr) {
    return absl::InfiniteDuration();
  }
  // Well before a token that was replaced at half of its lifetime ends.
  return std::clamp(options_.token_ttl / 8, absl::Seconds(1), absl::Hours(1));
}

// Logged once for the same reason.
void Succession::TellUnread(const absl::Status& read) {
  const std::string reason(read.message());
  if (std::exchange(unread_, reason) == reason || read.ok()) return;
  logger_.Write(Log::Level::kError,
                absl::StrCat("event=tokens_not_read reason=", Quoted(reason)));
}

absl::Status Succession::ReadTokens(bool make) {
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

void Succession::On(const Deposed& deposed) {
  EndLoop(NotLeader({}));
  logger_.Write(Log::Level::kWarning,
                absl::StrCat("event=deposed reason=", Quoted(deposed.why)));
}

void Succession::On(const OtherLeads& other) {
  door_.Shut(NotLeader(other.endpoints));
  logger_.Write(
      Log::Level::kInfo,
      absl::StrCat("event=stands_by leader=",
                   other.endpoints.empty()
                       ? "none"
                       : Quoted(absl::StrJoin(other.endpoints, ","))));
}

void Succession::On(const Quit&) {
  quit_ = true;
  EndLoop(absl::UnavailableError("the daemon is shutting down; dial again"));
}

void Succession::EndLoop(const absl::Status& why) {
  door_.Shut(why);
  if (loop_ != nullptr) loop_->Stop(why);
  loop_.reset();
  journal_.reset();
}

}  // namespace rollcall
