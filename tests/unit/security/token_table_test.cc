#include "daemon/security/secrets/token_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token.h"
#include "tests/unit/security/token_table_fixture.h"

namespace rollcall {
namespace {

TEST(TokenTable, RolesContainEachOther) {
  TokenTable table;
  table.Seed(
      {Seeded("viewer", v1::ROLE_VIEWER), Seeded("worker", v1::ROLE_WORKER),
       Seeded("admin", v1::ROLE_ADMIN), Seeded("none", v1::ROLE_UNSPECIFIED)},
      kNow);
  const struct {
    const char* id;
    For purpose;
    bool good;
  } rows[] = {
      {"viewer", For::kLook, true},    {"viewer", For::kAttend, false},
      {"viewer", For::kReturn, false}, {"viewer", For::kSteer, false},
      {"worker", For::kLook, true},    {"worker", For::kAttend, true},
      {"worker", For::kReturn, true},  {"worker", For::kSteer, false},
      {"admin", For::kLook, true},     {"admin", For::kAttend, true},
      {"admin", For::kReturn, true},   {"admin", For::kSteer, true},
      {"viewer", For::kLead, false},   {"worker", For::kLead, false},
      {"admin", For::kLead, true},     {"none", For::kLook, false},
      {"none", For::kAttend, false},   {"none", For::kSteer, false},
  };
  for (const auto& row : rows) {
    const TokenVerdict verdict =
        table.Check(TokenOf(row.id), row.purpose, "train", kNow);
    EXPECT_EQ(verdict.ok(), row.good) << row.id;
    if (row.good) continue;
    EXPECT_EQ(verdict.code, v1::REFUSAL_CODE_ROLE) << row.id;
    EXPECT_EQ(verdict.status.code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST(TokenTable, TheWholeTokenMustBeRight) {
  TokenTable table;
  table.Seed(
      {Seeded("worker", v1::ROLE_WORKER), Seeded("other", v1::ROLE_WORKER)},
      kNow);
  const v1::JoinToken good = TokenOf("worker");
  EXPECT_EQ(CodeOf(table, good, For::kAttend), kGood);
  v1::JoinToken none;
  v1::JoinToken no_secret = good;
  no_secret.clear_secret();
  v1::JoinToken cut = good;
  cut.mutable_secret()->pop_back();
  v1::JoinToken flipped = good;
  flipped.mutable_secret()->back() ^= 1;
  v1::JoinToken longer = good;
  longer.mutable_secret()->push_back('\0');
  v1::JoinToken of_another = good;
  of_another.set_id("other");
  v1::JoinToken unknown = good;
  unknown.set_id("nobody");
  for (const v1::JoinToken& token :
       {none, no_secret, cut, flipped, longer, of_another, unknown}) {
    const TokenVerdict verdict =
        table.Check(token, For::kAttend, "train", kNow);
    EXPECT_EQ(verdict.code, v1::REFUSAL_CODE_UNAUTHENTICATED) << token.id();
    EXPECT_EQ(verdict.status.code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST(TokenTable, ItsTimeEndsByTheClock) {
  TokenTable table;
  const v1::JoinToken token = TokenOf("brief");
  ASSERT_TRUE(table.Create(token, Wanted(v1::ROLE_WORKER, 60), kNow).ok());
  const absl::Time end = kNow + absl::Seconds(60);
  const struct {
    absl::Time at;
    v1::RefusalCode code;
  } rows[] = {
      {kNow, kGood},
      {end - absl::Nanoseconds(1), kGood},
      {end, v1::REFUSAL_CODE_TOKEN_EXPIRED},
      {end + absl::Hours(24 * 365), v1::REFUSAL_CODE_TOKEN_EXPIRED},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(CodeOf(table, token, For::kAttend, "train", row.at), row.code);
    // A client with another secret learns nothing about the token.
    v1::JoinToken wrong = token;
    wrong.set_secret("guess");
    EXPECT_EQ(CodeOf(table, wrong, For::kAttend, "train", row.at),
              v1::REFUSAL_CODE_UNAUTHENTICATED);
  }
}

TEST(TokenTable, ASeedHasNoEnd) {
  TokenTable table;
  table.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  EXPECT_EQ(CodeOf(table, TokenOf("worker"), For::kAttend, "train",
                   kNow + absl::Hours(24 * 36500)),
            kGood);
}

TEST(TokenTable, UsesAreCounted) {
  TokenTable table;
  const v1::JoinToken token = TokenOf("two");
  ASSERT_TRUE(table.Create(token, Wanted(v1::ROLE_WORKER, 0, 2), kNow).ok());
  EXPECT_EQ(table.List("")[0].uses_left(), 2u);
  // A check does not count as a use.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(CodeOf(table, token, For::kAttend), kGood);
    EXPECT_EQ(CodeOf(table, token, For::kLook), kGood);
  }
  table.Use("two");
  EXPECT_EQ(CodeOf(table, token, For::kAttend), kGood);
  table.Use("two");
  EXPECT_EQ(CodeOf(table, token, For::kAttend), v1::REFUSAL_CODE_TOKEN_USED_UP);
  ASSERT_TRUE(
      table.Create(TokenOf("lead"), Wanted(v1::ROLE_ADMIN, 0, 1), kNow).ok());
  EXPECT_EQ(CodeOf(table, TokenOf("lead"), For::kLead), kGood);
  table.Use("lead");
  EXPECT_EQ(CodeOf(table, TokenOf("lead"), For::kLead),
            v1::REFUSAL_CODE_TOKEN_USED_UP);
  EXPECT_EQ(CodeOf(table, TokenOf("lead"), For::kSteer), kGood);
  // An admitted node may return, and may still read.
  EXPECT_EQ(CodeOf(table, token, For::kReturn), kGood);
  EXPECT_EQ(CodeOf(table, token, For::kLook), kGood);
  table.Use("two");
  EXPECT_EQ(table.List("")[1].id(), "two");
  EXPECT_EQ(table.List("")[1].uses_left(), 0u);
  table.Use("nobody");
}

TEST(TokenTable, OneWithoutABoundIsNotCounted) {
  TokenTable table;
  table.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  table.Saved();
  table.Use("worker");
  EXPECT_TRUE(table.Changed().empty());
  EXPECT_FALSE(table.List("")[0].has_uses_left());
}

TEST(TokenTable, OneOfAJobIsForThatJob) {
  TokenTable table;
  const v1::JoinToken token = TokenOf("a");
  ASSERT_TRUE(
      table.Create(token, Wanted(v1::ROLE_ADMIN, 0, 0, "train"), kNow).ok());
  EXPECT_EQ(CodeOf(table, token, For::kSteer, "train"), kGood);
  EXPECT_EQ(CodeOf(table, token, For::kSteer, "eval"),
            v1::REFUSAL_CODE_OTHER_JOB);
  EXPECT_EQ(CodeOf(table, token, For::kAttend, "eval"),
            v1::REFUSAL_CODE_OTHER_JOB);
  EXPECT_EQ(table.Check(token, For::kLook, "eval", kNow).status.code(),
            absl::StatusCode::kPermissionDenied);
  // If the client names no job, the verdict has the token's job.
  EXPECT_EQ(table.Check(token, For::kSteer, "", kNow).job, "train");
  table.Seed({Seeded("any", v1::ROLE_WORKER)}, kNow);
  EXPECT_EQ(table.Check(TokenOf("any"), For::kAttend, "eval", kNow).job, "");
}

TEST(TokenTable, WhatWasRevokedStaysRevoked) {
  TokenTable table;
  table.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  ASSERT_TRUE(table.Revoke("worker", "", kNow).ok());
  ASSERT_TRUE(table.Revoke("worker", "", kNow).ok()) << "safe to retry";
  const v1::JoinToken token = TokenOf("worker");
  for (For purpose : {For::kAttend, For::kReturn, For::kLook, For::kSteer}) {
    EXPECT_EQ(CodeOf(table, token, purpose), v1::REFUSAL_CODE_TOKEN_REVOKED);
  }
  table.Seed({Seeded("worker", v1::ROLE_ADMIN)}, kNow);
  EXPECT_EQ(CodeOf(table, token, For::kLook), v1::REFUSAL_CODE_TOKEN_REVOKED);
  // The token stays revoked after a restart.
  TokenTable next;
  next.Load(Journaled(table));
  next.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  EXPECT_EQ(CodeOf(next, token, For::kAttend), v1::REFUSAL_CODE_TOKEN_REVOKED);
  EXPECT_TRUE(next.List("")[0].revoked());
}

TEST(TokenTable, AJournalGivesBackWhatItWas) {
  TokenTable table;
  ASSERT_TRUE(
      table.Create(TokenOf("a"), Wanted(v1::ROLE_WORKER, 60, 2, "train"), kNow)
          .ok());
  table.Use("a");
  TokenTable next;
  next.Load(Journaled(table));
  EXPECT_TRUE(next.Changed().empty()) << "the journal has it already";
  EXPECT_EQ(CodeOf(next, TokenOf("a"), For::kAttend), kGood);
  EXPECT_EQ(CodeOf(next, TokenOf("a"), For::kAttend, "eval"),
            v1::REFUSAL_CODE_OTHER_JOB);
  EXPECT_EQ(CodeOf(next, TokenOf("a"), For::kAttend, "train",
                   kNow + absl::Seconds(60)),
            v1::REFUSAL_CODE_TOKEN_EXPIRED);
  next.Use("a");
  EXPECT_EQ(CodeOf(next, TokenOf("a"), For::kAttend),
            v1::REFUSAL_CODE_TOKEN_USED_UP);
  // The journal has a digest, not the secret.
  const std::vector<v1::TokenRecord> records = Journaled(table);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].secret_sha256(), Sha256("secret of a"));
  EXPECT_EQ(records[0].SerializeAsString().find("secret of"),
            std::string::npos);
}

TEST(TokenTable, ASeedGoesWhenTheDaemonIsStartedWithoutIt) {
  TokenTable table;
  table.Seed(
      {Seeded("worker", v1::ROLE_WORKER), Seeded("shared", v1::ROLE_ADMIN)},
      kNow);
  ASSERT_TRUE(
      table.Create(TokenOf("made"), Wanted(v1::ROLE_WORKER), kNow).ok());
  TokenTable next;
  next.Load(Journaled(table));
  next.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  EXPECT_EQ(CodeOf(next, TokenOf("worker"), For::kAttend), kGood);
  EXPECT_EQ(CodeOf(next, TokenOf("made"), For::kAttend), kGood);
  EXPECT_EQ(CodeOf(next, TokenOf("shared"), For::kLook),
            v1::REFUSAL_CODE_UNAUTHENTICATED);
  EXPECT_EQ(next.Changed().removed, std::vector<std::string>{"shared"});
}

TEST(TokenTable, ARevokedSeedIsNeverForgottenToMakeRoom) {
  TokenTable table;
  table.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  ASSERT_TRUE(table.Revoke("worker", "", kNow).ok());
  // An hour later all have expired, and each new one replaces an expired one.
  for (size_t i = 0; i < 2 * Limits::tokens_max; ++i) {
    const absl::Time when =
        i < Limits::tokens_max ? kNow : kNow + absl::Hours(1);
    (void)table.Create(TokenOf(absl::StrCat("t", i)),
                       Wanted(v1::ROLE_WORKER, 60), when);
  }
  TokenTable next;
  next.Load(Journaled(table));
  next.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  EXPECT_EQ(CodeOf(next, TokenOf("worker"), For::kAttend),
            v1::REFUSAL_CODE_TOKEN_REVOKED);
}

TEST(TokenTable, ASeedWithAnotherSecretTakesThePlace) {
  TokenTable table;
  table.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  table.Saved();
  table.Seed({Seeded("worker", v1::ROLE_WORKER)}, kNow);
  EXPECT_TRUE(table.Changed().empty());
  SeededToken fresh = Seeded("worker", v1::ROLE_WORKER);
  fresh.token.set_secret("another");
  table.Seed({fresh}, kNow);
  EXPECT_EQ(table.Changed().written.size(), 1u);
  EXPECT_EQ(CodeOf(table, fresh.token, For::kAttend), kGood);
  EXPECT_EQ(CodeOf(table, TokenOf("worker"), For::kAttend),
            v1::REFUSAL_CODE_UNAUTHENTICATED);
}

TEST(TokenTable, TheLastLastingAdminCannotBeRevoked) {
  TokenTable table;
  table.Seed({Seeded("one", v1::ROLE_ADMIN), Seeded("worker", v1::ROLE_WORKER)},
             kNow);
  // Neither of these is an admin token for all jobs that does not expire.
  ASSERT_TRUE(
      table.Create(TokenOf("brief"), Wanted(v1::ROLE_ADMIN, 60), kNow).ok());
  ASSERT_TRUE(table
                  .Create(TokenOf("narrow"),
                          Wanted(v1::ROLE_ADMIN, 0, 0, "train"), kNow)
                  .ok());
  EXPECT_EQ(table.Revoke("one", "", kNow).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(table, TokenOf("one"), For::kSteer), kGood);
  ASSERT_TRUE(table.Create(TokenOf("two"), Wanted(v1::ROLE_ADMIN), kNow).ok());
  EXPECT_TRUE(table.Revoke("one", "", kNow).ok());
  EXPECT_EQ(table.Revoke("two", "", kNow).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(table.Revoke("brief", "", kNow).ok());
  EXPECT_TRUE(table.Revoke("narrow", "", kNow).ok());
  EXPECT_TRUE(table.Revoke("worker", "", kNow).ok());
}

TEST(TokenTable, RevokesWhatTheJobHas) {
  TokenTable table;
  ASSERT_TRUE(
      table.Create(TokenOf("a"), Wanted(v1::ROLE_WORKER, 0, 0, "train"), kNow)
          .ok());
  EXPECT_EQ(table.Revoke("nobody", "", kNow).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(table.Revoke("a", "eval", kNow).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(table, TokenOf("a"), For::kAttend), kGood);
  EXPECT_TRUE(table.Revoke("a", "train", kNow).ok());
}

TEST(TokenTable, ListsThoseOfTheJob) {
  TokenTable table;
  table.Seed({SeededToken{TokenOf("any"), v1::ROLE_VIEWER, "for dashboards"}},
             kNow);
  ASSERT_TRUE(
      table.Create(TokenOf("t"), Wanted(v1::ROLE_WORKER, 0, 0, "train"), kNow)
          .ok());
  ASSERT_TRUE(
      table.Create(TokenOf("e"), Wanted(v1::ROLE_WORKER, 0, 0, "eval"), kNow)
          .ok());
  const auto ids = [&](const std::string& job) {
    std::string text;
    for (const v1::TokenStatus& token : table.List(job)) {
      absl::StrAppend(&text, token.id(), " ");
    }
    return text;
  };
  EXPECT_EQ(ids(""), "any e t ");
  EXPECT_EQ(ids("train"), "any t ");
  EXPECT_EQ(ids("eval"), "any e ");
  EXPECT_EQ(table.List("")[0].description(), "for dashboards");
}

TEST(TokenTable, RequestsHaveAGrammar) {
  TokenTable table;
  v1::CreateTokenRequest no_role;
  v1::CreateTokenRequest odd_role = Wanted(v1::ROLE_WORKER);
  odd_role.set_role(static_cast<v1::Role>(17));
  v1::CreateTokenRequest too_brief = Wanted(v1::ROLE_WORKER);
  too_brief.mutable_lifetime()->set_nanos(999'999'999);
  v1::CreateTokenRequest backwards = Wanted(v1::ROLE_WORKER, -5);
  v1::CreateTokenRequest no_duration = Wanted(v1::ROLE_WORKER, 5);
  no_duration.mutable_lifetime()->set_nanos(-1);
  v1::CreateTokenRequest escape = Wanted(v1::ROLE_WORKER);
  escape.set_description("\x1b[2J");
  v1::CreateTokenRequest wordy = Wanted(v1::ROLE_WORKER);
  wordy.set_description(std::string(257, 'x'));
  for (const v1::CreateTokenRequest& request :
       {no_role, odd_role, too_brief, backwards, no_duration, escape, wordy}) {
    EXPECT_EQ(table.Create(TokenOf("a"), request, kNow).code(),
              absl::StatusCode::kInvalidArgument)
        << request.ShortDebugString();
  }
  EXPECT_TRUE(table.List("").empty());
  EXPECT_TRUE(table.Changed().empty());
  EXPECT_TRUE(
      table.Create(TokenOf("a"), Wanted(v1::ROLE_WORKER, 1), kNow).ok());
  EXPECT_EQ(CodeOf(table, TokenOf("a"), For::kAttend, "train",
                   kNow + absl::Milliseconds(999)),
            kGood);
  EXPECT_EQ(table.Create(TokenOf("a"), Wanted(v1::ROLE_ADMIN), kNow).code(),
            absl::StatusCode::kResourceExhausted)
      << "an id is taken once";
}

TEST(TokenTable, IsBoundedAndOnlyTheInvalidMakeRoom) {
  TokenTable table;
  ASSERT_TRUE(
      table.Create(TokenOf("brief"), Wanted(v1::ROLE_WORKER, 1), kNow).ok());
  ASSERT_TRUE(
      table.Create(TokenOf("once"), Wanted(v1::ROLE_WORKER, 0, 1), kNow).ok());
  for (size_t i = 2; i < Limits::tokens_max; ++i) {
    ASSERT_TRUE(table
                    .Create(TokenOf(absl::StrCat("t", i)),
                            Wanted(v1::ROLE_WORKER), kNow)
                    .ok());
  }
  const auto create = [&](const std::string& id, absl::Time now) {
    return table.Create(TokenOf(id), Wanted(v1::ROLE_WORKER), now).code();
  };
  EXPECT_EQ(create("a", kNow), absl::StatusCode::kResourceExhausted);
  table.Saved();
  // Each token that is no longer valid makes room for one.
  table.Use("once");
  EXPECT_EQ(create("a", kNow), absl::StatusCode::kOk);
  EXPECT_EQ(create("b", kNow), absl::StatusCode::kResourceExhausted);
  const absl::Time later = kNow + absl::Seconds(2);
  EXPECT_EQ(create("b", later), absl::StatusCode::kOk);
  EXPECT_EQ(create("c", later), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(table.Revoke("t7", "", later).ok());
  EXPECT_EQ(create("c", later), absl::StatusCode::kOk);
  EXPECT_EQ(create("d", later), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.List("").size(), Limits::tokens_max);
  const TokenTable::Changes changes = table.Changed();
  EXPECT_EQ(changes.removed, (std::vector<std::string>{"brief", "once", "t7"}));
  EXPECT_EQ(changes.written.size(), 3u);
  // A journal with more records than the limit is cut.
  std::vector<v1::TokenRecord> many(Limits::tokens_max + 1);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i].mutable_status()->set_id(absl::StrCat("t", i));
  }
  TokenTable loaded;
  loaded.Load(many);
  EXPECT_EQ(loaded.List("").size(), Limits::tokens_max);
}

TEST(TokenTable, TellsWhatAJournalHasToLearn) {
  TokenTable table;
  table.Seed({Seeded("one", v1::ROLE_WORKER)}, kNow);
  ASSERT_TRUE(
      table.Create(TokenOf("two"), Wanted(v1::ROLE_WORKER, 0, 3), kNow).ok());
  EXPECT_EQ(table.Changed().written.size(), 2u);
  // Until Saved, Changed returns it again.
  EXPECT_EQ(table.Changed().written.size(), 2u);
  table.Saved();
  EXPECT_TRUE(table.Changed().empty());
  table.Use("two");
  ASSERT_EQ(table.Changed().written.size(), 1u);
  EXPECT_EQ(table.Changed().written[0].status().uses_left(), 2u);
  table.Saved();
  ASSERT_TRUE(table.Revoke("one", "", kNow).ok());
  ASSERT_EQ(table.Changed().written.size(), 1u);
  EXPECT_TRUE(table.Changed().written[0].status().revoked());
}

}  // namespace
}  // namespace rollcall
