// OpenSSL's objects as unique_ptr with the right deleter, and strings as the
// bytes that OpenSSL takes.
#ifndef ROLLCALL_DAEMON_SECURITY_CRYPTO_OPENSSL_OWNED_H_
#define ROLLCALL_DAEMON_SECURITY_CRYPTO_OPENSSL_OWNED_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

namespace rollcall::openssl {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using BigNumber = std::unique_ptr<BIGNUM, Freer<BN_clear_free>>;
using Group = std::unique_ptr<EC_GROUP, Freer<EC_GROUP_free>>;
using Point = std::unique_ptr<EC_POINT, Freer<EC_POINT_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freer<EVP_PKEY_CTX_free>>;
using ParamBuilder =
    std::unique_ptr<OSSL_PARAM_BLD, Freer<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Freer<OSSL_PARAM_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;
using Store = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContext =
    std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;
using CipherContext =
    std::unique_ptr<EVP_CIPHER_CTX, Freer<EVP_CIPHER_CTX_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

// The bytes of `text`, which must outlive the pointer.
inline const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
inline unsigned char* Bytes(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

// A BIO that reads from `text`, which must outlive it.
inline Bio Reading(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace rollcall::openssl

#endif  // ROLLCALL_DAEMON_SECURITY_CRYPTO_OPENSSL_OWNED_H_
