#include "daemon/security/certificates/authority.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/crypto/openssl_owned.h"
#include "daemon/security/crypto/wipe.h"

namespace rollcall {
namespace {

constexpr char kCurve[] = "prime256v1";
// This is 8 bytes more than the group's order has, so that the bias of the
// reduction is at most 2^-64.
constexpr size_t kDerivedBytes = 40;
constexpr size_t kSerialBytes = 16;
// RFC 5280, 4.1.2.5: this notAfter means that the certificate does not expire.
constexpr char kNotBefore[] = "20000101000000Z";
constexpr char kNotAfter[] = "99991231235959Z";

using openssl::BigNumber;
using openssl::Bio;
using openssl::Certificate;
using openssl::Extension;
using openssl::Group;
using openssl::KeyContext;
using openssl::ParamBuilder;
using openssl::Params;
using openssl::Point;
using openssl::Reading;
using Key = std::shared_ptr<EVP_PKEY>;

Key Own(EVP_PKEY* key) { return Key(key, EVP_PKEY_free); }

absl::Status Trouble(const char* doing) {
  char text[256] = "no reason given";
  if (const unsigned long error = ERR_get_error(); error != 0) {
    ERR_error_string_n(error, text, sizeof(text));
  }
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("cannot ", doing, ": ", text));
}

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string PemOf(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr,
                           nullptr);
  return Text(bio.get());
}

std::string PemOf(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return Text(bio.get());
}

Key MakeKey() { return Own(EVP_EC_gen(kCurve)); }

// Overwrites the private number in the parameters at the end of a scope,
// because OpenSSL only frees it.
struct PrivateParam {
  OSSL_PARAM* params;
  ~PrivateParam() {
    OSSL_PARAM* number =
        params == nullptr ? nullptr
                          : OSSL_PARAM_locate(params, OSSL_PKEY_PARAM_PRIV_KEY);
    if (number != nullptr) OPENSSL_cleanse(number->data, number->data_size);
  }
};

// The key with this private number.
Key KeyOfNumber(const BIGNUM* number, const EC_GROUP* group) {
  const Point point(EC_POINT_new(group));
  if (!point || EC_POINT_mul(group, point.get(), number, nullptr, nullptr,
                             nullptr) != 1) {
    return nullptr;
  }
  unsigned char* bytes = nullptr;
  const size_t size = EC_POINT_point2buf(
      group, point.get(), POINT_CONVERSION_UNCOMPRESSED, &bytes, nullptr);
  const ParamBuilder builder(OSSL_PARAM_BLD_new());
  const bool pushed =
      size > 0 && builder &&
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME,
                                      kCurve, 0) == 1 &&
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                       bytes, size) == 1 &&
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, number) ==
          1;
  const Params params(pushed ? OSSL_PARAM_BLD_to_param(builder.get())
                             : nullptr);
  OPENSSL_free(bytes);
  const PrivateParam wiped{params.get()};
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR, params.get()) !=
          1) {
    return nullptr;
  }
  return Own(key);
}

bool AddExtension(X509* certificate, X509* issuer, int nid,
                  const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr &&
         X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Returns a certificate with the fields that the CA's and the issued ones have
// in common; it is not signed yet.
Certificate Begin(EVP_PKEY* key, const char* name) {
  Certificate certificate(X509_new());
  if (!certificate ||
      X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate.get()),
                                kNotBefore) != 1 ||
      ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate.get()),
                                kNotAfter) != 1) {
    return nullptr;
  }
  const std::string serial = RandomBytes(kSerialBytes);
  const BigNumber number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(serial.data()),
                static_cast<int>(serial.size()), nullptr));
  // The serial number is positive and has at most the 20 bytes that RFC 5280
  // allows.
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  return certificate;
}

Certificate MakeCaCertificate(EVP_PKEY* key) {
  Certificate ca = Begin(key, "rollcall CA");
  if (!ca) return nullptr;
  X509* x = ca.get();
  const bool made =
      X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
      AddExtension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      AddExtension(x, x, NID_key_usage, "critical,keyCertSign") &&
      AddExtension(x, x, NID_subject_key_identifier, "hash") &&
      X509_sign(x, key, EVP_sha256()) > 0;
  return made ? std::move(ca) : nullptr;
}

// Returns text like `DNS:a,IP:10.0.0.1`. Names that are not valid are left out,
// because a name with a comma could add another entry.
std::string AltNames(const std::vector<std::string>& names) {
  std::string text = "DNS:rollcall";
  for (const std::string& name : names) {
    if (IsIpv4(name) || IsIpv6(name)) {
      absl::StrAppend(&text, ",IP:", name);
    } else if (AdmitNodeName(name).ok()) {
      absl::StrAppend(&text, ",DNS:", name);
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<Authority> Authority::Make() {
  Key key = MakeKey();
  if (!key) return Trouble("make a key");
  return FromPkey(std::move(key));
}

absl::StatusOr<Authority> Authority::FromSecret(const SharedSecret& secret) {
  std::string derived = secret.Derive("ca key", kDerivedBytes);
  const WipeAtEnd wiped(derived);
  const Group group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const BigNumber number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(derived.data()),
                static_cast<int>(derived.size()), nullptr));
  const BigNumber order_minus_1(BN_new());
  BN_CTX* scratch = BN_CTX_new();
  // Reduces the number to 1 ... order - 1.
  const bool reduced =
      group && number && order_minus_1 && scratch != nullptr &&
      BN_copy(order_minus_1.get(), EC_GROUP_get0_order(group.get())) !=
          nullptr &&
      BN_sub_word(order_minus_1.get(), 1) == 1 &&
      BN_nnmod(number.get(), number.get(), order_minus_1.get(), scratch) == 1 &&
      BN_add_word(number.get(), 1) == 1;
  BN_CTX_free(scratch);
  Key key = reduced ? KeyOfNumber(number.get(), group.get()) : nullptr;
  if (!key) return Trouble("derive the CA's key");
  return FromPkey(std::move(key));
}

absl::StatusOr<Authority> Authority::FromKey(std::string_view pem) {
  const Bio bio = Reading(pem);
  Key key = Own(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr));
  ERR_clear_error();
  char curve[32] = {};
  if (!key || EVP_PKEY_is_a(key.get(), "EC") != 1 ||
      EVP_PKEY_get_group_name(key.get(), curve, sizeof(curve), nullptr) != 1 ||
      std::string_view(curve) != kCurve) {
    return absl::InvalidArgumentError(
        "expected the PEM of a P-256 private key, got something else");
  }
  return FromPkey(std::move(key));
}

absl::StatusOr<Authority> Authority::FromPkey(std::shared_ptr<EVP_PKEY> key) {
  const Certificate certificate = MakeCaCertificate(key.get());
  if (!certificate) return Trouble("make the CA's certificate");
  Authority authority;
  authority.certificate_ = PemOf(certificate.get());
  authority.pin_ = PinOf(key.get());
  authority.key_ = std::move(key);
  if (authority.pin_.size() != kPinBytes) return Trouble("digest a key");
  return authority;
}

std::string Authority::KeyPem() const { return PemOf(key_.get()); }

absl::StatusOr<IssuedCertificate> Authority::Issue(
    const std::vector<std::string>& names) const {
  const Key key = MakeKey();
  if (!key) return Trouble("make a key");
  const Bio bio = Reading(certificate_);
  const Certificate ca(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  const Certificate leaf = Begin(key.get(), "rollcall daemon");
  if (!ca || !leaf) return Trouble("make a certificate");
  X509* x = leaf.get();
  const bool made =
      X509_set_issuer_name(x, X509_get_subject_name(ca.get())) == 1 &&
      AddExtension(x, ca.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(x, ca.get(), NID_key_usage, "critical,digitalSignature") &&
      AddExtension(x, ca.get(), NID_ext_key_usage, "serverAuth") &&
      AddExtension(x, ca.get(), NID_authority_key_identifier, "keyid") &&
      AddExtension(x, ca.get(), NID_subject_alt_name, AltNames(names)) &&
      X509_sign(x, key_.get(), EVP_sha256()) > 0;
  if (!made) return Trouble("make a certificate");
  return IssuedCertificate{PemOf(x) + certificate_, PemOf(key.get())};
}

}  // namespace rollcall
