// Shared by the tests of the token table.
#ifndef ROLLCALL_TESTS_UNIT_SECURITY_TOKEN_TABLE_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_SECURITY_TOKEN_TABLE_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/security/secrets/token.h"
#include "daemon/security/secrets/token_table.h"

namespace rollcall {

using For = TokenTable::For;

inline const absl::Time kNow =
    absl::FromUnixSeconds(1'700'000'000) + absl::Milliseconds(900);

inline v1::JoinToken TokenOf(const std::string& id) {
  v1::JoinToken token;
  token.set_id(id);
  token.set_secret("secret of " + id);
  return token;
}

inline SeededToken Seeded(const std::string& id, v1::Role role) {
  return SeededToken{TokenOf(id), role, ""};
}

inline v1::CreateTokenRequest Wanted(v1::Role role, int64_t seconds = 0,
                                     uint32_t uses = 0,
                                     const std::string& job = "") {
  v1::CreateTokenRequest request;
  request.set_role(role);
  if (seconds != 0) request.mutable_lifetime()->set_seconds(seconds);
  request.set_uses(uses);
  request.set_job(job);
  return request;
}

inline v1::RefusalCode CodeOf(const TokenTable& table,
                              const v1::JoinToken& token, For purpose,
                              const std::string& job = "train",
                              absl::Time now = kNow) {
  const TokenVerdict verdict = table.Check(token, purpose, job, now);
  EXPECT_EQ(verdict.ok(), verdict.code == v1::REFUSAL_CODE_UNSPECIFIED);
  return verdict.code;
}

inline constexpr v1::RefusalCode kGood = v1::REFUSAL_CODE_UNSPECIFIED;

// The records that a journal would have after all changes of the table.
inline std::vector<v1::TokenRecord> Journaled(const TokenTable& table) {
  return table.Changed().written;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SECURITY_TOKEN_TABLE_FIXTURE_H_
