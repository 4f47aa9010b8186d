#include "daemon/security/crypto/digest.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>
#include <memory>

#include "daemon/base/check.h"
#include "daemon/security/crypto/openssl_owned.h"

namespace rollcall {
namespace {

constexpr char kSalt[] = "rollcall v1";

OSSL_PARAM Octets(const char* name, std::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(
      name, const_cast<char*>(bytes.data()), bytes.size());
}

}  // namespace

std::string RandomBytes(size_t bytes) {
  std::string random(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = getrandom(random.data() + have, bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK_GT(got, 0);
    have += static_cast<size_t>(got);
  }
  return random;
}

std::string Sha256(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(openssl::Bytes(bytes), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string HmacSha256(std::string_view key, std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  unsigned int size = 0;
  // HMAC fails only if there is not enough memory.
  CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             openssl::Bytes(bytes), bytes.size(),
             reinterpret_cast<unsigned char*>(digest.data()),
             &size) != nullptr);
  CHECK_EQ(size, digest.size());
  return digest;
}

std::string DeriveKey(std::string_view secret, std::string_view purpose,
                      size_t bytes) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
  CHECK(kdf != nullptr);  // Part of every OpenSSL 3.
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), &EVP_KDF_CTX_free);
  CHECK(context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      Octets(OSSL_KDF_PARAM_KEY, secret),
      Octets(OSSL_KDF_PARAM_SALT, std::string_view(kSalt, sizeof(kSalt) - 1)),
      Octets(OSSL_KDF_PARAM_INFO, purpose), OSSL_PARAM_construct_end()};
  std::string key(bytes, '\0');
  CHECK_GT(EVP_KDF_derive(context.get(),
                          reinterpret_cast<unsigned char*>(key.data()),
                          key.size(), parameters),
           0);
  return key;
}

bool SameSecret(std::string_view a, std::string_view b) {
  return !a.empty() && a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace rollcall
