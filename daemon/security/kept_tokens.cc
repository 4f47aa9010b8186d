#include "daemon/security/kept_tokens.h"

#include "absl/strings/str_cat.h"
#include "daemon/security/identity.h"
#include "daemon/security/token.h"

namespace rollcall {
namespace {

absl::Status Write(const std::string& path, const v1::JoinToken& token) {
  return WriteSecretFile(path, absl::StrCat(TokenText(token), "\n"));
}

absl::StatusOr<v1::JoinToken> KeepOne(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSecretFile(path);
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
    const std::optional<SharedSecret>& secret) const {
  std::vector<SeededToken> seeds = {
      {admin, v1::ROLE_ADMIN, "of the daemon's state folder"},
      {worker, v1::ROLE_WORKER, "of the daemon's join string"}};
  if (!secret.has_value()) return seeds;
  for (const v1::Role role :
       {v1::ROLE_ADMIN, v1::ROLE_WORKER, v1::ROLE_VIEWER}) {
    seeds.push_back({secret->Token(role), role, "of the shared secret"});
  }
  return seeds;
}

}  // namespace rollcall
