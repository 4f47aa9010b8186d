// How a token table replaces kept tokens before they expire.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "daemon/security/secrets/token_table.h"
#include "tests/unit/security/token_table_fixture.h"

namespace rollcall {
namespace {

// --- Replacement of kept tokens ----------------------------------------------

constexpr absl::Duration kTtl = absl::Hours(24);

SeededToken Kept(const std::string& id, v1::Role role,
                 absl::Duration lifetime = kTtl) {
  return SeededToken{TokenOf(id), role, "", true, lifetime};
}

TEST(TokenTable, AKeptTokenHasAnEndAndIsReplacedAtHalfOfItsLife) {
  TokenTable table;
  table.Seed({Kept("w1", v1::ROLE_WORKER),
              Kept("admin", v1::ROLE_ADMIN, absl::InfiniteDuration())},
             kNow);
  EXPECT_EQ(table.NextReplacement(), kNow + kTtl / 2);
  EXPECT_EQ(CodeOf(table, TokenOf("w1"), For::kAttend, "train",
                   kNow + kTtl - absl::Seconds(1)),
            kGood);
  EXPECT_EQ(CodeOf(table, TokenOf("w1"), For::kAttend, "train", kNow + kTtl),
            v1::REFUSAL_CODE_TOKEN_EXPIRED);
  EXPECT_EQ(
      CodeOf(table, TokenOf("admin"), For::kSteer, "train", kNow + 1000 * kTtl),
      kGood);
  const absl::Time half = kNow + kTtl / 2;
  EXPECT_EQ(table.ReplaceDue(TokenOf("w2"), half - absl::Nanoseconds(1)),
            std::nullopt);
  EXPECT_EQ(table.ReplaceDue(TokenOf("w2"), half), v1::ROLE_WORKER);
  EXPECT_EQ(table.ReplaceDue(TokenOf("w3"), half), std::nullopt);
  // The old one is valid until its own expiry; the new one stays valid.
  EXPECT_EQ(CodeOf(table, TokenOf("w1"), For::kAttend, "train",
                   kNow + kTtl - absl::Seconds(1)),
            kGood);
  EXPECT_EQ(CodeOf(table, TokenOf("w1"), For::kAttend, "train", kNow + kTtl),
            v1::REFUSAL_CODE_TOKEN_EXPIRED);
  EXPECT_EQ(CodeOf(table, TokenOf("w2"), For::kAttend, "train", kNow + kTtl),
            kGood);
  EXPECT_EQ(table.NextReplacement(), half + kTtl / 2);
}

TEST(TokenTable, ReplacedTokensDoNotAddUp) {
  TokenTable table;
  table.Seed({Kept("w0", v1::ROLE_WORKER)}, kNow);
  absl::Time now = kNow;
  for (int i = 1; i <= 100; ++i) {
    now += kTtl / 2;
    ASSERT_EQ(table.ReplaceDue(TokenOf(absl::StrCat("w", i)), now),
              v1::ROLE_WORKER);
    EXPECT_LE(table.List("").size(), 3u);
  }
}

TEST(TokenTable, AReplacedTokenOutlivesTheDaemonAndNotItsFile) {
  TokenTable table;
  table.Seed({Kept("w1", v1::ROLE_WORKER)}, kNow);
  const absl::Time half = kNow + kTtl / 2;
  ASSERT_TRUE(table.ReplaceDue(TokenOf("w2"), half).has_value());
  const std::vector<v1::TokenRecord> journaled = Journaled(table);
  // The daemon was restarted, and the file has the new token.
  TokenTable next;
  next.Load(journaled);
  next.Seed({Kept("w2", v1::ROLE_WORKER)}, half + absl::Hours(1));
  for (const char* id : {"w1", "w2"}) {
    EXPECT_EQ(
        CodeOf(next, TokenOf(id), For::kAttend, "train", half + absl::Hours(1)),
        kGood)
        << id;
  }
  EXPECT_EQ(next.NextReplacement(), half + kTtl / 2) << "it keeps its end";
  // The file was removed and a new one was made.
  TokenTable removed;
  removed.Load(journaled);
  removed.Seed({Kept("w9", v1::ROLE_WORKER)}, half + absl::Hours(1));
  for (const char* id : {"w1", "w2"}) {
    EXPECT_EQ(CodeOf(removed, TokenOf(id), For::kAttend, "train",
                     half + absl::Hours(1)),
              v1::REFUSAL_CODE_UNAUTHENTICATED)
        << id;
  }
  // The daemon died after it journaled the token and before it wrote the file.
  TokenTable unwritten;
  unwritten.Load(journaled);
  unwritten.Seed({Kept("w1", v1::ROLE_WORKER)}, half + absl::Hours(1));
  EXPECT_EQ(CodeOf(unwritten, TokenOf("w2"), For::kAttend),
            v1::REFUSAL_CODE_UNAUTHENTICATED);
  EXPECT_EQ(unwritten.ReplaceDue(TokenOf("w3"), half + absl::Hours(1)),
            v1::ROLE_WORKER);
  EXPECT_EQ(CodeOf(unwritten, TokenOf("w1"), For::kAttend), kGood);
}

TEST(TokenTable, WhatWasJournaledWithoutAnEndKeepsNone) {
  TokenTable older;
  older.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  TokenTable table;
  table.Load(Journaled(older));
  table.Seed({Kept("worker", v1::ROLE_WORKER)}, kNow);
  EXPECT_EQ(table.NextReplacement(), absl::InfiniteFuture());
  EXPECT_EQ(CodeOf(table, TokenOf("worker"), For::kAttend, "train",
                   kNow + 1000 * kTtl),
            kGood);
}

TEST(TokenTable, ARevokedKeptTokenIsReplacedAtOnce) {
  TokenTable table;
  table.Seed({Kept("w1", v1::ROLE_WORKER)}, kNow);
  ASSERT_TRUE(table.Revoke("w1", "", kNow).ok());
  EXPECT_EQ(table.ReplaceDue(TokenOf("w2"), kNow), v1::ROLE_WORKER);
  EXPECT_EQ(CodeOf(table, TokenOf("w1"), For::kAttend),
            v1::REFUSAL_CODE_TOKEN_REVOKED);
  EXPECT_EQ(CodeOf(table, TokenOf("w2"), For::kAttend), kGood);
  EXPECT_EQ(table.ReplaceDue(TokenOf("w3"), kNow), std::nullopt);
}

TEST(TokenTable, ARotatedTokenIsLikeTheOldOne) {
  TokenTable table;
  table.Seed({Kept("w1", v1::ROLE_WORKER),
              Kept("a1", v1::ROLE_ADMIN, absl::InfiniteDuration())},
             kNow);
  ASSERT_TRUE(table
                  .Create(TokenOf("made"),
                          Wanted(v1::ROLE_VIEWER, 3600, 4, "train"), kNow)
                  .ok());
  const absl::Time later = kNow + absl::Minutes(10);
  ASSERT_TRUE(table.Rotate("made", TokenOf("new"), "", later).ok());
  ASSERT_TRUE(table.Rotate("w1", TokenOf("w2"), "", later).ok());
  ASSERT_TRUE(table.Rotate("a1", TokenOf("a2"), "", later).ok());
  for (const char* id : {"made", "w1", "a1"}) {
    EXPECT_EQ(CodeOf(table, TokenOf(id), For::kLook, "train", later),
              v1::REFUSAL_CODE_TOKEN_REVOKED)
        << id;
  }
  EXPECT_EQ(CodeOf(table, TokenOf("new"), For::kLook, "train",
                   kNow + absl::Minutes(59)),
            kGood);
  EXPECT_EQ(
      CodeOf(table, TokenOf("new"), For::kLook, "train", kNow + absl::Hours(1)),
      v1::REFUSAL_CODE_TOKEN_EXPIRED);
  EXPECT_EQ(table.RoleOf("new"), v1::ROLE_VIEWER);
  EXPECT_EQ(table.KeptRole("w2"), v1::ROLE_WORKER);
  EXPECT_EQ(table.KeptRole("new"), std::nullopt);
  EXPECT_EQ(table.NextReplacement(), later + kTtl / 2);
  EXPECT_EQ(
      CodeOf(table, TokenOf("a2"), For::kSteer, "train", kNow + 1000 * kTtl),
      kGood);
  EXPECT_TRUE(
      absl::IsNotFound(table.Rotate("nobody", TokenOf("x"), "", later)));
  EXPECT_TRUE(
      absl::IsNotFound(table.Rotate("w2", TokenOf("x"), "other-job", later)));
}

TEST(TokenTable, RotatingAKeptTokenForEverStaysWithinTheBound) {
  TokenTable table;
  table.Seed({Kept("w0", v1::ROLE_WORKER)}, kNow);
  std::string last = "w0";
  for (size_t i = 1; i <= 2 * Limits::tokens_max; ++i) {
    const std::string next = absl::StrCat("w", i);
    ASSERT_TRUE(table.Rotate(last, TokenOf(next), "", kNow).ok());
    last = next;
  }
  EXPECT_LE(table.List("").size(), Limits::tokens_max);
  EXPECT_EQ(CodeOf(table, TokenOf(last), For::kAttend), kGood);
}

}  // namespace
}  // namespace rollcall
