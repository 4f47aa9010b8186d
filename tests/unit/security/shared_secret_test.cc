#include "daemon/security/secrets/shared_secret.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

std::string Hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

// The bytes 0 to 31.
constexpr char kHexSecret[] =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

TEST(SharedSecret, TextsThatAreOne) {
  const char* const texts[] = {
      kHexSecret,
      "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
      "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
      "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
      " \n000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
  };
  for (const char* text : texts) {
    const absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(text);
    ASSERT_TRUE(secret.ok()) << text;
    EXPECT_EQ(
        Hex(secret->Derive("credential key", 32)),
        "1edbfeb9bee12094b50f7d77dbba220c0b092556bb5904d3c9603ad6e7bc9743")
        << text;
  }
  // Both base64 alphabets are accepted, and 128 bits in hex.
  for (const char* text : {"--__--__--__--__--__--__--__--__--__--__--__",
                           "++//++//++//++//++//++//++//++//++//++//++//",
                           "00112233445566778899aabbccddeeff"}) {
    EXPECT_TRUE(SharedSecret::Parse(text).ok()) << text;
  }
}

TEST(SharedSecret, TextsThatAreNone) {
  const std::string texts[] = {
      "",
      " \n",
      "password",
      // These have only 120 bits, in hex and in base64.
      "00112233445566778899aabbccdd",
      "AAECAwQFBgcICQoLDA0O",
      // These have less than 256 bits in base64, as a passphrase would.
      "--__--__--__--__--__--",
      "passwordpasswordpassword",
      "correct horse battery staple and more words",
      "00112233445566778899aabbccddeeff!",
      std::string(2000, 'a'),
  };
  for (const std::string& text : texts) {
    const absl::Status status = SharedSecret::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    for (const char* part : {"horse", "password", "0011", "AAEC", "aaaa"}) {
      EXPECT_EQ(status.ToString().find(part), std::string::npos);
    }
  }
}

TEST(SharedSecret, OneIsMadeThatIsOne) {
  std::set<std::string> seen;
  for (int i = 0; i < 20; ++i) {
    const std::string text = SharedSecret::MakeText();
    EXPECT_TRUE(SharedSecret::Parse(text).ok());
    EXPECT_GE(text.size(), 43u);  // 256 bits.
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 20u);
}

// HKDF-SHA-256 with the salt "rollcall v1", computed without OpenSSL. If these
// values changed, holders of an existing secret could no longer verify their
// daemon.
TEST(SharedSecret, DerivesWhatItAlwaysDid) {
  const absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(kHexSecret);
  ASSERT_TRUE(secret.ok());
  const struct {
    const char* purpose;
    size_t bytes;
    const char* expect;
  } rows[] = {
      {"credential key", 32,
       "1edbfeb9bee12094b50f7d77dbba220c0b092556bb5904d3c9603ad6e7bc9743"},
      {"token worker", 16, "8f5cfc0958f2a9b1c1d5c21dc2464cb8"},
      {"token viewer", 16, "18dbb275da101861a029b63ab75464ec"},
      {"token admin", 16, "8b261aa35fcb7aedc04e739421b33983"},
      {"ca key", 40,
       "011b41c1b38bd6058451a5096eeb029e38e3d27d432bff9dcea145e862d44525"
       "b6a54fa5e2a9ef66"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Hex(secret->Derive(row.purpose, row.bytes)), row.expect)
        << row.purpose;
  }
}

TEST(SharedSecret, EachRoleHasATokenOfItsOwn) {
  const absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(kHexSecret);
  ASSERT_TRUE(secret.ok());
  std::set<std::string> ids, secrets;
  for (v1::Role role : {v1::ROLE_WORKER, v1::ROLE_VIEWER, v1::ROLE_ADMIN}) {
    const v1::JoinToken token = secret->Token(role);
    EXPECT_TRUE(IsToken(token));
    EXPECT_EQ(token.secret(),
              SharedSecret::Parse(kHexSecret)->Token(role).secret());
    ids.insert(token.id());
    secrets.insert(token.secret());
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(secrets.size(), 3u);
  EXPECT_EQ(Hex(secret->Token(v1::ROLE_WORKER).secret()),
            "8f5cfc0958f2a9b1c1d5c21dc2464cb8");
  EXPECT_NE(SharedSecret::Parse(SharedSecret::MakeText())
                ->Token(v1::ROLE_WORKER)
                .secret(),
            secret->Token(v1::ROLE_WORKER).secret());
}

// The first test case of RFC 4231, and the SHA-256 of "abc".
TEST(Digest, IsWhatTheStandardsSay) {
  EXPECT_EQ(Hex(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(Digest, SameSecretsAreWholeAndNotEmpty) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("", ""));
}

TEST(Digest, RandomBytesAreAsManyAsWanted) {
  EXPECT_EQ(RandomBytes(0).size(), 0u);
  EXPECT_EQ(RandomBytes(1000).size(), 1000u);
  EXPECT_NE(RandomBytes(16), RandomBytes(16));
}

}  // namespace
}  // namespace rollcall
