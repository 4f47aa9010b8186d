// TestCa: a user's own PKI for tests. It has a CA and issues certificates that
// are valid, or wrong in the way that a test needs.
#ifndef ROLLCALL_TESTS_UNIT_TEST_CA_H_
#define ROLLCALL_TESTS_UNIT_TEST_CA_H_

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "daemon/security/crypto/openssl_owned.h"

namespace rollcall {

class TestCa {
 public:
  struct Wanted {
    // Subject alternative names in OpenSSL's form: "DNS:a,IP:127.0.0.1".
    std::string names = "DNS:localhost,IP:127.0.0.1";
    std::string usage = "serverAuth,clientAuth";
    // The times are relative to now, and both may be in the past.
    long begins_s = -3600;
    long ends_s = 3600;
  };
  struct Issued {
    std::string certificate;
    std::string key;
  };

  explicit TestCa(const std::string& name = "test CA")
      : name_(name), key_(MakeKey()) {
    certificate_ = Make(key_.get(), name, "critical,CA:TRUE", "", "", Wanted());
  }

  std::string certificate() const { return PemOf(certificate_.get()); }
  Issued Issue(const Wanted& wanted) const {
    const Key key = MakeKey();
    const Certificate leaf = Make(key.get(), "leaf", "critical,CA:FALSE",
                                  wanted.names, wanted.usage, wanted);
    return {PemOf(leaf.get()), PemOf(key.get())};
  }
  Issued Issue() const { return Issue(Wanted()); }

 private:
  using Bio = openssl::Bio;
  using Key = openssl::Key;
  using Certificate = openssl::Certificate;
  using Extension = openssl::Extension;

  static Key MakeKey() { return Key(EVP_EC_gen("prime256v1")); }
  static std::string Text(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<size_t>(size));
  }
  static std::string PemOf(EVP_PKEY* key) {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr,
                             nullptr);
    return Text(bio.get());
  }
  static std::string PemOf(X509* certificate) {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate);
    return Text(bio.get());
  }

  // This CA signs the certificate. The CA's own certificate is self-signed.
  Certificate Make(EVP_PKEY* key, const std::string& name,
                   const std::string& constraints, const std::string& names,
                   const std::string& usage, const Wanted& wanted) const {
    Certificate made(X509_new());
    X509* x = made.get();
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(x),
                            reinterpret_cast<uintptr_t>(x));
    X509_gmtime_adj(X509_getm_notBefore(x), wanted.begins_s);
    X509_gmtime_adj(X509_getm_notAfter(x), wanted.ends_s);
    X509_set_pubkey(x, key);
    AddName(X509_get_subject_name(x), name);
    AddName(X509_get_issuer_name(x), name_);
    Add(x, NID_basic_constraints, constraints);
    if (!names.empty()) Add(x, NID_subject_alt_name, names);
    if (!usage.empty()) Add(x, NID_ext_key_usage, usage);
    EXPECT_GT(X509_sign(x, key_.get(), EVP_sha256()), 0);
    return made;
  }
  static void AddName(X509_NAME* to, const std::string& name) {
    X509_NAME_add_entry_by_txt(
        to, "CN", MBSTRING_ASC,
        reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  }
  static void Add(X509* to, int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, to, to, nullptr, nullptr, 0);
    const Extension extension(
        X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
    ASSERT_NE(extension, nullptr) << value;
    EXPECT_EQ(X509_add_ext(to, extension.get(), -1), 1);
  }

  const std::string name_;
  const Key key_;
  Certificate certificate_;
};

// Writes a new file and renames it, as a user who replaces a file in use does.
inline void ReplaceFile(const std::string& path, const std::string& text) {
  // A key file that other users can read would be refused.
  std::ofstream(path + ".new").close();
  ASSERT_EQ(chmod((path + ".new").c_str(), 0600), 0) << path;
  std::ofstream(path + ".new") << text;
  ASSERT_EQ(rename((path + ".new").c_str(), path.c_str()), 0) << path;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TEST_CA_H_
