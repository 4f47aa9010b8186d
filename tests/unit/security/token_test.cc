#include "daemon/security/secrets/token.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rollcall {
namespace {

TEST(Token, IsFreshEachTime) {
  std::set<std::string> ids, secrets;
  for (int i = 0; i < 100; ++i) {
    const v1::JoinToken token = MakeToken();
    EXPECT_EQ(token.id().size(), 6u);
    EXPECT_EQ(token.secret().size(), 16u);
    EXPECT_TRUE(IsToken(token));
    ids.insert(token.id());
    secrets.insert(token.secret());
  }
  EXPECT_EQ(secrets.size(), 100u);
  // 30 bits: among 100 ids two are equal once in about 200,000 runs.
  EXPECT_GE(ids.size(), 99u);
}

TEST(Token, TextSurvivesTheRoundTrip) {
  const v1::JoinToken token = MakeToken();
  const absl::StatusOr<v1::JoinToken> parsed =
      ParseTokenText(" " + TokenText(token) + "\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->id(), token.id());
  EXPECT_EQ(parsed->secret(), token.secret());
}

TEST(Token, RefusesWhatIsNone) {
  for (const char* text : {"", ".", "abc", "abc.", ".00ff", "abc.0", "abc.0g",
                           "abc.00FF", "A.00ff", "a b.00ff", "abc.00ff.11"}) {
    EXPECT_EQ(ParseTokenText(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_TRUE(ParseTokenText("abc." + std::string(128, '0')).ok());
  EXPECT_FALSE(ParseTokenText("abc." + std::string(130, '0')).ok());
  EXPECT_TRUE(ParseTokenText(std::string(64, 'a') + ".00").ok());
  EXPECT_FALSE(ParseTokenText(std::string(65, 'a') + ".00").ok());
}

TEST(Token, NoErrorShowsWhatItWas) {
  const absl::Status status = ParseTokenText("abc.hush-hush").status();
  EXPECT_EQ(status.ToString().find("hush"), std::string::npos);
}

TEST(Token, HasAnIdAndASecret) {
  v1::JoinToken token;
  token.set_id("a-7");
  token.set_secret("s");
  EXPECT_TRUE(IsToken(token));
  for (const char* id : {"", "A", "a b", "a\n", "a."}) {
    v1::JoinToken other = token;
    other.set_id(id);
    EXPECT_FALSE(IsToken(other)) << id;
  }
  token.set_id(std::string(64, 'a'));
  token.set_secret(std::string(64, 's'));
  EXPECT_TRUE(IsToken(token));
  token.set_secret(std::string(65, 's'));
  EXPECT_FALSE(IsToken(token));
  token.clear_secret();
  EXPECT_FALSE(IsToken(token));
}

TEST(Roles, AreThreeWords) {
  const struct {
    const char* word;
    v1::Role role;
  } rows[] = {{"worker", v1::ROLE_WORKER},
              {"viewer", v1::ROLE_VIEWER},
              {"admin", v1::ROLE_ADMIN}};
  for (const auto& row : rows) {
    const absl::StatusOr<v1::Role> role = ParseRole(row.word);
    ASSERT_TRUE(role.ok()) << row.word;
    EXPECT_EQ(*role, row.role);
    EXPECT_EQ(RoleWord(row.role), row.word);
  }
  for (const char* word :
       {"", "root", "Admin", "admin ", "ROLE_ADMIN", "unknown"}) {
    EXPECT_EQ(ParseRole(word).status().code(),
              absl::StatusCode::kInvalidArgument)
        << word;
  }
}

}  // namespace
}  // namespace rollcall
