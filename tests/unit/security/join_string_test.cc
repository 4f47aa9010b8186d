#include "daemon/security/join_string.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

v1::JoinString Sample() {
  v1::JoinString join;
  join.add_endpoints("node1.example:29400");
  join.add_endpoints("[fd00::1]:29400");
  join.set_job("train-7");
  join.set_ca_pin(std::string(32, 'p'));
  *join.mutable_token() = MakeToken();
  return join;
}

TEST(JoinString, SurvivesTheRoundTrip) {
  const v1::JoinString join = Sample();
  const std::string text = EncodeJoinString(join);
  EXPECT_EQ(text.substr(0, 4), "rc1.");
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
  v1::JoinString short_pin = Sample();
  short_pin.set_ca_pin(std::string(31, 'p'));
  v1::JoinString long_pin = Sample();
  long_pin.set_ca_pin(std::string(33, 'p'));
  v1::JoinString many = Sample();
  for (int i = 0; i < 64; ++i) many.add_endpoints("node1:1");
  const std::string texts[] = {
      "",
      "rc1.",
      "hello",
      "rc1",
      "rc0." + good.substr(4),
      "rc1.!!!",
      good.substr(0, good.size() / 2),
      "x" + good,
      "rc1." + std::string(100'000, 'A'),
      EncodeJoinString(no_endpoint),
      EncodeJoinString(bad_endpoint),
      EncodeJoinString(bad_port),
      EncodeJoinString(bad_job),
      EncodeJoinString(no_secret),
      EncodeJoinString(long_secret),
      EncodeJoinString(short_pin),
      EncodeJoinString(long_pin),
      EncodeJoinString(many),
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

TEST(JoinString, WithoutTlsItNamesLoopbackAlone) {
  v1::JoinString join = Sample();
  join.clear_ca_pin();
  join.set_insecure(true);
  const struct {
    const char* endpoint;
    bool good;
  } rows[] = {
      {"127.0.0.1:29400", true},   {"127.8.8.8:29400", true},
      {"[::1]:29400", true},       {"localhost:29400", true},
      {"10.0.0.1:29400", false},   {"[fd00::1]:29400", false},
      {"node1:29400", false},      {"127.evil.example:29400", false},
      {"0.0.0.0:29400", false},    {"[::]:29400", false},
      {"localhost.evil:1", false},
  };
  for (const auto& row : rows) {
    join.clear_endpoints();
    join.add_endpoints(row.endpoint);
    EXPECT_EQ(DecodeJoinString(EncodeJoinString(join)).ok(), row.good)
        << row.endpoint;
    join.add_endpoints("10.0.0.1:1");
    EXPECT_FALSE(DecodeJoinString(EncodeJoinString(join)).ok());
  }
}

TEST(JoinString, EachLetterCounts) {
  const std::string good = EncodeJoinString(Sample());
  for (size_t i = 0; i < good.size(); ++i) {
    for (char other : {'A', 'b', '7'}) {
      if (good[i] == other) continue;
      std::string text = good;
      text[i] = other;
      const absl::StatusOr<v1::JoinString> decoded = DecodeJoinString(text);
      // The last letter has unused bits, so another last letter may decode to
      // the same.
      const bool same = i + 1 == good.size() && decoded.ok() &&
                        EncodeJoinString(*decoded) == good;
      EXPECT_TRUE(!decoded.ok() || same) << "letter " << i;
    }
  }
}

TEST(Loopback, IsThisMachineAlone) {
  for (const char* host :
       {"localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "127.0.0.1:80",
        "[::1]:80", "localhost:80"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"", "0.0.0.0", "::", "[::]:0", "10.0.0.1", "128.0.0.1",
        "127.0.0.1.evil", "127.", "127.0.0.256", "::2", "localhost.example",
        "xlocalhost", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace rollcall
