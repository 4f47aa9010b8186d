#include "daemon/security/join_string.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rollcall {
namespace {

v1::JoinString Sample() {
  v1::JoinString join;
  join.add_endpoints("node1.example:29400");
  join.add_endpoints("[fd00::1]:29400");
  join.set_job("train-7");
  *join.mutable_token() = MakeToken();
  return join;
}

TEST(JoinString, SurvivesTheRoundTrip) {
  const v1::JoinString join = Sample();
  const std::string text = EncodeJoinString(join);
  EXPECT_EQ(text.substr(0, 4), "rc0.");
  EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ"
                                   "RSTUVWXYZ0123456789-_.="),
            std::string::npos);
  const absl::StatusOr<v1::JoinString> decoded =
      DecodeJoinString("  " + text + "\n");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->SerializeAsString(), join.SerializeAsString());
}

TEST(JoinString, RefusesWhatIsNone) {
  const std::string good = EncodeJoinString(Sample());
  v1::JoinString no_endpoint = Sample();
  no_endpoint.clear_endpoints();
  v1::JoinString bad_endpoint = Sample();
  bad_endpoint.set_endpoints(0, "node1;rm:1");
  v1::JoinString bad_port = Sample();
  bad_port.set_endpoints(0, "node1:70000");
  v1::JoinString bad_job = Sample();
  bad_job.set_job("Train 7");
  v1::JoinString no_secret = Sample();
  no_secret.mutable_token()->clear_secret();
  v1::JoinString long_secret = Sample();
  long_secret.mutable_token()->set_secret(std::string(65, 's'));
  const std::string texts[] = {
      "",
      "rc0.",
      "hello",
      "rc0",
      "rc1." + good.substr(4),
      "rc0.!!!",
      good.substr(0, good.size() / 2),
      "x" + good,
      "rc0." + std::string(100'000, 'A'),
      EncodeJoinString(no_endpoint),
      EncodeJoinString(bad_endpoint),
      EncodeJoinString(bad_port),
      EncodeJoinString(bad_job),
      EncodeJoinString(no_secret),
      EncodeJoinString(long_secret),
  };
  for (const std::string& text : texts) {
    const absl::StatusOr<v1::JoinString> decoded = DecodeJoinString(text);
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(JoinString, AnotherVersionIsNamed) {
  const absl::Status status = DecodeJoinString("rc7.AAAA").status();
  EXPECT_NE(std::string(status.message()).find("rc7."), std::string::npos);
}

TEST(JoinString, NoErrorShowsTheSecret) {
  v1::JoinString join = Sample();
  join.mutable_token()->set_secret("hush-hush-hush");
  join.set_job("No Job");
  const absl::Status status = DecodeJoinString(EncodeJoinString(join)).status();
  EXPECT_EQ(status.ToString().find("hush"), std::string::npos);
}

TEST(Token, IsFreshEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const v1::JoinToken token = MakeToken();
    EXPECT_EQ(token.id().size(), 6u);
    EXPECT_EQ(token.secret().size(), 16u);
    seen.insert(token.secret());
  }
  EXPECT_EQ(seen.size(), 100u);
}

TEST(Token, TextSurvivesTheRoundTrip) {
  const v1::JoinToken token = MakeToken();
  const absl::StatusOr<v1::JoinToken> parsed =
      ParseTokenText(TokenText(token) + "\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(SameToken(*parsed, token));
}

TEST(Token, RefusesWhatIsNone) {
  for (const char* text : {"", ".", "abc", "abc.", ".00ff", "abc.0", "abc.0g",
                           "abc.00FF", "A.00ff", "a b.00ff", "abc.00ff.11"}) {
    EXPECT_EQ(ParseTokenText(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_FALSE(ParseTokenText("abc." + std::string(130, '0')).ok());
}

TEST(Token, SameMeansIdAndWholeSecret) {
  v1::JoinToken a;
  a.set_id("a");
  a.set_secret("0123456789abcdef");
  v1::JoinToken b = a;
  EXPECT_TRUE(SameToken(a, b));
  b.set_id("b");
  EXPECT_FALSE(SameToken(a, b));
  b = a;
  b.mutable_secret()->back() ^= 1;
  EXPECT_FALSE(SameToken(a, b));
  b.set_secret("0123456789abcde");
  EXPECT_FALSE(SameToken(a, b));
  a.clear_secret();
  b.clear_secret();
  EXPECT_FALSE(SameToken(a, b)) << "an empty secret is no secret";
}

}  // namespace
}  // namespace rollcall
