// Tests the flags of what an admin does: drain, evict, tokens, and how the
// connection to a daemon is protected.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "tests/unit/cli/parse_flags.h"

namespace rollcall {
namespace {

TEST(Flags, Drain) {
  const auto drain = Parse<DrainFlags>(
      "drain node-3 --deadline 90s --reason maintenance --job demo --json");
  EXPECT_EQ(drain.node, "node-3");
  EXPECT_EQ(drain.deadline, absl::Seconds(90));
  EXPECT_EQ(drain.reason, "maintenance");
  EXPECT_EQ(drain.where.job, "demo");
  EXPECT_TRUE(drain.json);
  const auto by_string = Parse<DrainFlags>("drain node-3 rc1.abc");
  EXPECT_EQ(by_string.where.join_string, "rc1.abc");
  EXPECT_EQ(by_string.deadline, absl::InfiniteDuration());
  EXPECT_TRUE(absl::StrContains(Complaint("drain"), "which node"));
  EXPECT_TRUE(absl::StrContains(Complaint("drain rc1.abc node-3"), "NODE"));
  EXPECT_NE(Complaint("drain no_name!"), "");
  EXPECT_TRUE(absl::StrContains(Complaint("drain n --deadline now"), "30s"));
  EXPECT_NE(Complaint("drain n -- x"), "");
  const std::string most(Limits::admin_reason_bytes_max, 'r');
  for (const char* const command : {"drain n --reason ", "evict n --reason "}) {
    EXPECT_EQ(Complaint(absl::StrCat(command, most)), "");
    EXPECT_TRUE(absl::StrContains(Complaint(absl::StrCat(command, most, "r")),
                                  "at most 512 bytes, got 513"));
  }
}

TEST(Flags, Evict) {
  const auto evict =
      Parse<EvictFlags>("evict node-3 --reason stolen --job demo --json");
  EXPECT_EQ(evict.node, "node-3");
  EXPECT_EQ(evict.reason, "stolen");
  EXPECT_EQ(evict.where.job, "demo");
  EXPECT_TRUE(evict.json);
  EXPECT_EQ(Parse<EvictFlags>("evict node-3 rc1.abc").where.join_string,
            "rc1.abc");
  EXPECT_TRUE(absl::StrContains(Complaint("evict"), "which node"));
  EXPECT_TRUE(absl::StrContains(Complaint("evict rc1.abc node-3"), "NODE"));
  EXPECT_NE(Complaint("evict no_name!"), "");
  EXPECT_NE(Complaint("evict n --deadline 1s"), "");
  EXPECT_FALSE(Parse<TokenFlags>("token revoke abc123 rc1.x").cascade);
  EXPECT_TRUE(Parse<TokenFlags>("token revoke abc123 --cascade").cascade);
  EXPECT_NE(Complaint("token rotate abc123 --cascade"), "");
}

TEST(Flags, TokenVerbs) {
  const auto made = Parse<TokenFlags>(
      "token create --role viewer --ttl 90s --uses 4 --job demo");
  EXPECT_EQ(made.verb, TokenFlags::Verb::kCreate);
  EXPECT_EQ(made.role, v1::ROLE_VIEWER);
  EXPECT_EQ(made.ttl, absl::Seconds(90));
  EXPECT_EQ(made.uses, 4u);
  EXPECT_EQ(made.where.job, "demo");
  const auto plain = Parse<TokenFlags>("token create");
  EXPECT_EQ(plain.role, v1::ROLE_WORKER);
  EXPECT_EQ(plain.ttl, absl::Hours(24));
  EXPECT_EQ(Parse<TokenFlags>("token create --ttl never").ttl,
            absl::InfiniteDuration());
  EXPECT_EQ(plain.uses, 0u);
  const auto gone = Parse<TokenFlags>("token revoke abc123 rc1.x");
  EXPECT_EQ(gone.verb, TokenFlags::Verb::kRevoke);
  EXPECT_EQ(gone.id, "abc123");
  EXPECT_EQ(gone.where.join_string, "rc1.x");
  EXPECT_EQ(Parse<TokenFlags>("token list").verb, TokenFlags::Verb::kList);
  EXPECT_EQ(Parse<TokenFlags>("token rotate a").verb,
            TokenFlags::Verb::kRotate);
  EXPECT_EQ(Parse<TokenFlags>("token secret").verb, TokenFlags::Verb::kSecret);
}

TEST(Flags, HowLongAJoinStringIsValid) {
  const struct {
    const char* text;
    absl::Duration ttl;
  } rows[] = {{"", absl::Hours(24)},
              {"--token-ttl 90s", absl::Seconds(90)},
              {"--token-ttl 48h", absl::Hours(48)},
              {"--token-ttl never", absl::InfiniteDuration()}};
  for (const auto& row : rows) {
    EXPECT_EQ(Parse<LaunchFlags>(absl::StrCat("launch ", row.text, " -- true"))
                  .token_ttl,
              row.ttl)
        << row.text;
  }
  for (const char* text : {"0", "1s", "-1h", "soon", "1e9h", "9000h"}) {
    EXPECT_NE(Complaint(absl::StrCat("launch --token-ttl ", text, " -- true")),
              "")
        << text;
  }
}

TEST(Flags, TokenComplaintsNameWhatIsMissing) {
  const struct {
    const char* line;
    const char* part;
  } kRows[] = {
      {"token", "create, list, revoke, rotate or secret"},
      {"token revoke", "needs a token's id"},
      {"token create --role king", "worker, viewer or admin"},
      {"token create --ttl soon", "--ttl"},
      {"token create --rol worker", "--role"},
  };
  for (const auto& row : kRows) {
    EXPECT_TRUE(absl::StrContains(Complaint(row.line), row.part))
        << row.line << ": " << Complaint(row.line);
  }
}

TEST(Flags, TlsFilesGoTogether) {
  const auto join = Parse<JoinFlags>(
      "join rc1.x --tls-ca a --tls-cert b --tls-key c -- true");
  EXPECT_EQ(join.where.tls.ca, "a");
  EXPECT_EQ(join.where.tls.cert, "b");
  EXPECT_EQ(join.where.tls.key, "c");
  for (const char* line :
       {"join rc1.x --tls-ca a -- true", "launch --tls-cert b -- true",
        "status rc1.x --tls-key c", "stop rc1.x --tls-ca a --tls-key c",
        "token list --tls-ca a"}) {
    EXPECT_TRUE(absl::StrContains(Complaint(line), "go together")) << line;
  }
}

TEST(Flags, InsecureAndASecretExcludeEachOther) {
  EXPECT_TRUE(Parse<LaunchFlags>("launch --insecure -- true").insecure);
  EXPECT_NE(Complaint("launch --insecure --secret-file s -- true"), "");
}

}  // namespace
}  // namespace rollcall
