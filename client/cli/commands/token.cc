// `rollcall token`: makes, lists, revokes and rotates tokens.
#include "daemon/security/secrets/token.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/admin/admin_client.h"
#include "client/admin/job_text.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "daemon/base/durations.h"
#include "daemon/security/secrets/shared_secret.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

absl::Time ExpiresAt(const v1::TokenStatus& token) {
  if (!token.has_expires_at()) return absl::InfiniteFuture();
  return absl::FromUnixSeconds(token.expires_at().seconds()) +
         absl::Nanoseconds(token.expires_at().nanos());
}

// Returns `revoked`, `expired`, `used up` or `valid`.
std::string StateOf(const v1::TokenStatus& token) {
  if (token.revoked()) return "revoked";
  if (absl::Now() >= ExpiresAt(token)) return "expired";
  if (token.has_uses_left() && token.uses_left() == 0) return "used up";
  return "valid";
}

nlohmann::ordered_json JsonOf(const v1::TokenStatus& token) {
  nlohmann::ordered_json json = {{"id", token.id()},
                                 {"role", RoleWord(token.role())},
                                 {"state", StateOf(token)},
                                 {"job", token.job()},
                                 {"expires_at", nullptr},
                                 {"uses_left", nullptr},
                                 {"description", token.description()}};
  if (token.has_expires_at()) json["expires_at"] = token.expires_at().seconds();
  if (token.has_uses_left()) json["uses_left"] = token.uses_left();
  return json;
}

void ShowList(const v1::ListTokensResponse& response, bool json) {
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const v1::TokenStatus& token : response.tokens()) {
      all.push_back(JsonOf(token));
    }
    std::printf("%s\n",
                OneLine(nlohmann::ordered_json{{"tokens", all}}).c_str());
    return;
  }
  std::printf("%-16s %-7s %-8s %-10s %-6s %s\n", "ID", "ROLE", "STATE",
              "EXPIRES IN", "USES", "DESCRIPTION");
  for (const v1::TokenStatus& token : response.tokens()) {
    const absl::Duration left = ExpiresAt(token) - absl::Now();
    std::printf(
        "%-16s %-7s %-8s %-10s %-6s %s\n", token.id().c_str(),
        RoleWord(token.role()).c_str(), StateOf(token).c_str(),
        !token.has_expires_at()        ? "-"
        : left <= absl::ZeroDuration() ? "over"
                                       : ShortDuration(left).c_str(),
        token.has_uses_left() ? absl::StrCat(token.uses_left()).c_str() : "-",
        token.description().c_str());
  }
}

void ShowMade(const JobAddress& address, v1::Role role,
              const v1::CreateTokenResponse& made, bool json) {
  const std::string join = JoinStringOf(address, made.job(), made.token());
  if (json) {
    const nlohmann::ordered_json out = {{"id", made.token().id()},
                                        {"role", RoleWord(role)},
                                        {"job", made.job()},
                                        {"join", join}};
    std::printf("%s\n", OneLine(out).c_str());
  } else {
    Complain(
        absl::StrCat("token ", made.token().id(), ", for a ", RoleWord(role)));
    std::printf("%s\n", join.c_str());
  }
}

int Create(const TokenFlags& flags, const JobAddress& address) {
  v1::CreateTokenRequest request;
  request.set_job(address.job);
  request.set_role(flags.role);
  request.set_uses(flags.uses);
  request.set_description(flags.description);
  if (flags.ttl != absl::InfiniteDuration()) {
    ToProto(flags.ttl, request.mutable_lifetime());
  }
  const auto made = AdminClient(address).CreateToken(request, kCallTimeout);
  if (!made.ok()) return Fail(made.status());
  ShowMade(address, request.role(), *made, flags.json);
  return 0;
}

int List(const TokenFlags& flags, const JobAddress& address) {
  const auto tokens = AdminClient(address).ListTokens(kCallTimeout);
  if (!tokens.ok()) return Fail(tokens.status());
  ShowList(*tokens, flags.json);
  return 0;
}

int Revoke(const TokenFlags& flags, const JobAddress& address) {
  const auto revoked =
      AdminClient(address).RevokeToken(flags.id, flags.cascade, kCallTimeout);
  if (!revoked.ok()) return Fail(revoked.status());
  Complain(absl::StrCat("token ", flags.id, " is revoked"));
  if (flags.json) {
    auto evicted = nlohmann::ordered_json::array();
    for (const std::string& node : revoked->evicted()) evicted.push_back(node);
    const nlohmann::ordered_json out = {{"id", flags.id}, {"evicted", evicted}};
    std::printf("%s\n", OneLine(out).c_str());
    return 0;
  }
  for (const std::string& node : revoked->evicted()) {
    std::printf("node %s is evicted\n", node.c_str());
  }
  return 0;
}

int Rotate(const TokenFlags& flags, const JobAddress& address) {
  const auto made = AdminClient(address).RotateToken(flags.id, kCallTimeout);
  if (!made.ok()) return Fail(made.status());
  ShowMade(address, made->role(), *made, flags.json);
  Complain(absl::StrCat("token ", flags.id, " is revoked"));
  return 0;
}

}  // namespace

int RunTokenCommand(const TokenFlags& flags) {
  using Verb = TokenFlags::Verb;
  if (flags.verb == Verb::kSecret) {
    std::printf("%s\n", SharedSecret::MakeText().c_str());
    return 0;
  }
  auto address = JobToSee(flags.where, v1::ROLE_ADMIN);
  if (!address.ok()) return Fail(address.status());
  PrepareGrpc();
  switch (flags.verb) {
    case Verb::kCreate:
      return Create(flags, *address);
    case Verb::kRevoke:
      return Revoke(flags, *address);
    case Verb::kRotate:
      return Rotate(flags, *address);
    default:
      return List(flags, *address);
  }
}

}  // namespace rollcall
