// A daemon's own CA, and the check of the certificates that a daemon presents.
#include "daemon/security/certificates/authority.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "daemon/security/certificates/chain.h"
#include "daemon/security/crypto/digest.h"
#include "tests/unit/test_ca.h"

namespace rollcall {
namespace {

constexpr char kSecretInHex[] =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

Authority MakeAuthority() {
  absl::StatusOr<Authority> made = Authority::Make();
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

std::string Issue(const Authority& authority) {
  const absl::StatusOr<IssuedCertificate> issued =
      authority.Issue({"127.0.0.1", "::1", "node1.example"});
  EXPECT_TRUE(issued.ok()) << issued.status();
  return issued->chain;
}

// Returns the first certificate of a chain.
std::string LeafOf(const std::string& chain) {
  const std::string end = "-----END CERTIFICATE-----\n";
  return chain.substr(0, chain.find(end) + end.size());
}

void ExpectStranger(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
}

TEST(Authority, IsKnownByItsPin) {
  const Authority ours = MakeAuthority();
  const std::string chain = Issue(ours);
  EXPECT_EQ(ours.pin().size(), kPinBytes);
  const absl::Status verified = VerifyPinned(chain, ours.pin());
  EXPECT_TRUE(verified.ok()) << verified;
  for (size_t i = 0; i < kPinBytes; ++i) {
    std::string other = ours.pin();
    other[i] ^= 1;
    ExpectStranger(VerifyPinned(chain, other));
  }
  for (const std::string& pin : {std::string(), ours.pin().substr(0, 31),
                                 ours.pin() + "x", std::string(32, '\0')}) {
    ExpectStranger(VerifyPinned(chain, pin));
  }
}

TEST(Authority, AnothersChainIsAnothers) {
  const Authority ours = MakeAuthority();
  const Authority theirs = MakeAuthority();
  const std::string stranger = Issue(theirs);
  ExpectStranger(VerifyPinned(stranger, ours.pin()));
  // Our CA's certificate is public: anyone can add it to another chain.
  ExpectStranger(VerifyPinned(stranger + ours.certificate(), ours.pin()));
  ExpectStranger(
      VerifyPinned(LeafOf(stranger) + ours.certificate(), ours.pin()));
  // The same chain in the other order, with the CA first.
  ExpectStranger(VerifyPinned(ours.certificate() + stranger, ours.pin()));
  // Our certificate further down the chain proves nothing.
  ExpectStranger(VerifyPinned(stranger + Issue(ours), ours.pin()));
}

TEST(Authority, AChainIsWholeOrNothing) {
  const Authority ours = MakeAuthority();
  const std::string chain = Issue(ours);
  const std::string leaf = LeafOf(chain);
  ASSERT_EQ(leaf + ours.certificate(), chain);
  std::string wrong_letter = chain;
  wrong_letter[leaf.size() / 2] =
      wrong_letter[leaf.size() / 2] == 'A' ? 'B' : 'A';
  const std::string texts[] = {
      "",
      leaf,
      ours.certificate(),
      chain.substr(0, chain.size() / 2),
      wrong_letter,
      "garbage",
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
      std::string("\0\xff\x7f", 3),
      ours.KeyPem(),
      // Comes after more bytes than a chain may have.
      leaf + std::string(1 << 17, '\n') + ours.certificate(),
  };
  for (const std::string& text : texts) {
    ExpectStranger(VerifyPinned(text, ours.pin()));
  }
  std::string long_chain = leaf;
  for (int i = 0; i < 20; ++i) long_chain += leaf;
  ExpectStranger(VerifyPinned(long_chain + ours.certificate(), ours.pin()));
}

TEST(Authority, TheSecretMakesTheSameOneEverywhere) {
  const absl::StatusOr<SharedSecret> secret = SharedSecret::Parse(kSecretInHex);
  ASSERT_TRUE(secret.ok());
  const absl::StatusOr<Authority> here = Authority::FromSecret(*secret);
  const absl::StatusOr<Authority> there = Authority::FromSecret(*secret);
  ASSERT_TRUE(here.ok()) << here.status();
  ASSERT_TRUE(there.ok());
  // These values were computed without OpenSSL, to check the curve, the
  // reduction and the encoding.
  EXPECT_EQ(absl::BytesToHexString(here->pin()),
            "ca8a11e4f260fd3391042403738f7f17ceba8134afddb15ca391b6832e49b31a");
  EXPECT_EQ(here->pin(), there->pin());
  EXPECT_EQ(here->KeyPem(), there->KeyPem());
  EXPECT_TRUE(VerifyPinned(Issue(*here), there->pin()).ok());
  const absl::StatusOr<SharedSecret> other =
      SharedSecret::Parse(SharedSecret::MakeText());
  EXPECT_NE(Authority::FromSecret(*other)->pin(), here->pin());
}

TEST(Authority, ComesBackFromItsKey) {
  const Authority ours = MakeAuthority();
  const absl::StatusOr<Authority> again = Authority::FromKey(ours.KeyPem());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->pin(), ours.pin());
  EXPECT_TRUE(VerifyPinned(Issue(*again), ours.pin()).ok());
}

std::string KeyOf(const char* type, const char* curve) {
  EVP_PKEY* key = curve != nullptr ? EVP_EC_gen(curve)
                                   : EVP_PKEY_Q_keygen(nullptr, nullptr, type);
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(key);
  return pem;
}

TEST(Authority, OnlyAKeyOfItsKindIsTaken) {
  const Authority ours = MakeAuthority();
  EXPECT_TRUE(Authority::FromKey(KeyOf("EC", "prime256v1")).ok());
  for (const std::string& text :
       {std::string(), std::string("garbage"), ours.certificate(),
        ours.KeyPem().substr(0, 60), KeyOf("EC", "secp384r1"),
        KeyOf("EC", "secp256k1"), KeyOf("ED25519", nullptr)}) {
    EXPECT_EQ(Authority::FromKey(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(Authority, EachCertificateHasAKeyOfItsOwn) {
  const Authority ours = MakeAuthority();
  const absl::StatusOr<IssuedCertificate> one = ours.Issue({"a"});
  const absl::StatusOr<IssuedCertificate> two = ours.Issue({"a"});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->key, two->key);
  EXPECT_EQ(one->chain.find("PRIVATE"), std::string::npos);
  EXPECT_NE(one->key, ours.KeyPem());
}

TEST(Authority, ItsCertificateIsForTheNamesItIsGiven) {
  const Authority ours = MakeAuthority();
  const absl::StatusOr<IssuedCertificate> issued = ours.Issue(
      {"127.0.0.1", "fd00::1", "node1.example", "no name", "a,DNS:evil"});
  ASSERT_TRUE(issued.ok()) << issued.status();
  const auto verify = [&](const std::string& name) {
    return VerifyIssued(issued->chain, ours.certificate(), name);
  };
  for (const char* name : {"127.0.0.1", "fd00::1", "node1.example"}) {
    EXPECT_TRUE(verify(name).ok()) << verify(name);
  }
  for (const char* name :
       {"127.0.0.2", "fd00::2", "node2.example", "evil", "example", ""}) {
    ExpectStranger(verify(name));
  }
}

// --- The user's own PKI ------------------------------------------------------

TEST(VerifyIssued, LooksAtIssuerNameTimeAndUse) {
  const TestCa ours("ours");
  // This CA has the same name and another key.
  const TestCa twin("ours");
  const TestCa theirs("theirs");
  const auto wanted = [](auto change) {
    TestCa::Wanted wanted;
    change(wanted);
    return wanted;
  };
  const std::string good = ours.Issue().certificate;
  const std::string other_name =
      ours.Issue(wanted([](auto& w) { w.names = "DNS:other"; })).certificate;
  const std::string nameless =
      ours.Issue(wanted([](auto& w) { w.names = ""; })).certificate;
  const std::string wildcard =
      ours.Issue(wanted([](auto& w) { w.names = "DNS:*.lab.example"; }))
          .certificate;
  const std::string expired =
      ours.Issue(wanted([](auto& w) { w.ends_s = -60; })).certificate;
  const std::string early =
      ours.Issue(wanted([](auto& w) { w.begins_s = 600; })).certificate;
  const std::string client =
      ours.Issue(wanted([](auto& w) { w.usage = "clientAuth"; })).certificate;
  const std::string server =
      ours.Issue(wanted([](auto& w) { w.usage = "serverAuth"; })).certificate;
  const struct {
    const char* what;
    std::string chain;
    std::string ca;
    const char* name;
    bool good;
  } rows[] = {
      {"good", good, ours.certificate(), "localhost", true},
      {"by address", good, ours.certificate(), "127.0.0.1", true},
      {"its CA behind it", good + ours.certificate(), ours.certificate(),
       "localhost", true},
      {"one of two CAs", good, theirs.certificate() + ours.certificate(),
       "localhost", true},
      {"server's use alone", server, ours.certificate(), "localhost", true},
      {"wildcard", wildcard, ours.certificate(), "a.lab.example", true},
      {"another CA", good, theirs.certificate(), "localhost", false},
      {"a twin", good, twin.certificate(), "localhost", false},
      {"it brings its own CA", good + ours.certificate(), theirs.certificate(),
       "localhost", false},
      {"another name", other_name, ours.certificate(), "localhost", false},
      {"another address", good, ours.certificate(), "127.0.0.2", false},
      {"no name", nameless, ours.certificate(), "localhost", false},
      {"the subject is no name", nameless, ours.certificate(), "theirs", false},
      {"wildcard too deep", wildcard, ours.certificate(), "a.b.lab.example",
       false},
      {"expired", expired, ours.certificate(), "localhost", false},
      {"not yet", early, ours.certificate(), "localhost", false},
      {"a client's", client, ours.certificate(), "localhost", false},
      {"no chain", "", ours.certificate(), "localhost", false},
      {"garbage", "garbage", ours.certificate(), "localhost", false},
      {"no CA", good, "", "localhost", false},
      {"a garbled CA", good, "garbage", "localhost", false},
      {"the leaf as CA", good, good, "other", false},
  };
  for (const auto& row : rows) {
    const absl::Status status = VerifyIssued(row.chain, row.ca, row.name);
    EXPECT_EQ(status.ok(), row.good) << row.what << ": " << status;
    if (!row.good) ExpectStranger(status);
  }
}

}  // namespace
}  // namespace rollcall
