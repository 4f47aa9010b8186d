#include "daemon/security/kept_tokens.h"

#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/join_string.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

absl::Status Write(const std::string& path, const v1::JoinToken& token) {
  return WriteSecretFile(path, absl::StrCat(TokenText(token), "\n"));
}

absl::StatusOr<v1::JoinToken> KeepOne(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadOwnFile(path);
  if (text.ok()) {
    absl::StatusOr<v1::JoinToken> token = ParseTokenText(*text);
    if (token.ok()) return token;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", std::string(token.status().message()),
                     "; remove the file, and the daemon makes another token"));
  }
  if (!absl::IsNotFound(text.status())) return text.status();
  const v1::JoinToken made = MakeToken();
  if (absl::Status s = Write(path, made); !s.ok()) return s;
  return made;
}

}  // namespace

absl::StatusOr<KeptTokens> KeptTokens::Keep(const std::string& folder) {
  absl::StatusOr<v1::JoinToken> admin = KeepOne(folder + kAdminTokenFile);
  if (!admin.ok()) return admin.status();
  absl::StatusOr<v1::JoinToken> worker = KeepOne(folder + kWorkerTokenFile);
  if (!worker.ok()) return worker.status();
  return KeptTokens{*std::move(admin), *std::move(worker)};
}

absl::StatusOr<KeptTokens> KeptTokens::Renew(
    const std::string& folder, const std::optional<SharedSecret>& secret) {
  const KeptTokens tokens = secret.has_value()
                                ? KeptTokens{secret->Token(v1::ROLE_ADMIN),
                                             secret->Token(v1::ROLE_WORKER)}
                                : KeptTokens{MakeToken(), MakeToken()};
  absl::Status s = Write(folder + kAdminTokenFile, tokens.admin);
  if (s.ok()) s = Write(folder + kWorkerTokenFile, tokens.worker);
  if (!s.ok()) return s;
  return tokens;
}

std::vector<SeededToken> KeptTokens::Seeds(
    const std::optional<SharedSecret>& secret,
    absl::Duration worker_lifetime) const {
  // A launcher with a secret has the derived tokens in its folder. These are
  // not replaced.
  const auto derived = [&secret](const v1::JoinToken& token, v1::Role role) {
    return secret.has_value() &&
           SameSecret(token.secret(), secret->Token(role).secret());
  };
  const bool admin_kept = !derived(admin, v1::ROLE_ADMIN);
  const bool worker_kept = !derived(worker, v1::ROLE_WORKER);
  std::vector<SeededToken> seeds = {
      {admin, v1::ROLE_ADMIN, "in the daemon's state folder", admin_kept,
       absl::InfiniteDuration()},
      {worker, v1::ROLE_WORKER, "in the daemon's join string", worker_kept,
       worker_kept ? worker_lifetime : absl::InfiniteDuration()}};
  if (!secret.has_value()) return seeds;
  for (const v1::Role role :
       {v1::ROLE_ADMIN, v1::ROLE_WORKER, v1::ROLE_VIEWER}) {
    seeds.push_back({secret->Token(role), role, "from the shared secret", false,
                     absl::InfiniteDuration()});
  }
  return seeds;
}

absl::Status WriteKeptToken(const std::string& folder, v1::Role role,
                            const v1::JoinToken& token) {
  return Write(
      folder + (role == v1::ROLE_ADMIN ? kAdminTokenFile : kWorkerTokenFile),
      token);
}

void JoinFiles::Listening(const std::vector<std::string>& endpoints,
                          const std::string& pin) {
  join_.mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
  join_.set_ca_pin(pin);
}

absl::Status JoinFiles::Write(v1::Role role, const v1::JoinToken& token) {
  if (folder_.empty()) return absl::OkStatus();
  *join_.mutable_token() = token;
  return WriteSecretFile(
      folder_ + (role == v1::ROLE_ADMIN ? kAdminJoinFile : kWorkerJoinFile),
      absl::StrCat(EncodeJoinString(join_), "\n"));
}

absl::StatusOr<absl::Duration> ParseTokenTtl(const std::string& flag,
                                             const std::string& text) {
  constexpr absl::Duration kMin = absl::Seconds(2);
  constexpr absl::Duration kMax = absl::Hours(24 * 366);
  if (text == "never") return absl::InfiniteDuration();
  absl::Duration ttl;
  if (absl::ParseDuration(text, &ttl) && ttl >= kMin && ttl <= kMax) return ttl;
  return absl::InvalidArgumentError(
      absl::StrCat(flag,
                   ": expected never, or a duration from 2s to 8784h "
                   "such as 90s or 24h, got '",
                   Printable(text, 64), "'"));
}

}  // namespace rollcall
