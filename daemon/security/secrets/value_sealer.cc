#include "daemon/security/secrets/value_sealer.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include "daemon/base/check.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/crypto/openssl_owned.h"

namespace rollcall {
namespace {

constexpr std::string_view kMagic = "rcs1";
constexpr size_t kSealingKeyBytes = 32;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
static_assert(ValueSealer::kBytesAdded ==
              kMagic.size() + kNonceBytes + kTagBytes);

openssl::CipherContext MakeContext() {
  openssl::CipherContext context(EVP_CIPHER_CTX_new());
  CHECK(context != nullptr);  // Fails only if there is no memory.
  return context;
}

}  // namespace

ValueSealer::ValueSealer(const SharedSecret& secret)
    : key_(secret.Derive("etcd values", kSealingKeyBytes)) {}

std::string ValueSealer::Seal(std::string_view name,
                              std::string_view value) const {
  const std::string nonce = RandomBytes(kNonceBytes);
  std::string sealed;
  sealed.reserve(value.size() + kBytesAdded);
  sealed.append(kMagic);
  sealed.append(nonce);
  sealed.resize(value.size() + kBytesAdded);
  unsigned char* const out =
      openssl::Bytes(sealed) + kMagic.size() + kNonceBytes;
  const openssl::CipherContext context = MakeContext();
  int size = 0;
  // None of these calls fails for sizes that fit an int; limits.h bounds the
  // values.
  const bool done =
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                         openssl::Bytes(std::string_view(key_)),
                         openssl::Bytes(std::string_view(nonce))) == 1 &&
      EVP_EncryptUpdate(context.get(), nullptr, &size, openssl::Bytes(name),
                        static_cast<int>(name.size())) == 1 &&
      EVP_EncryptUpdate(context.get(), out, &size, openssl::Bytes(value),
                        static_cast<int>(value.size())) == 1 &&
      EVP_EncryptFinal_ex(context.get(), out + size, &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                          out + value.size()) == 1;
  CHECK(done);
  return sealed;
}

absl::StatusOr<std::string> ValueSealer::Open(std::string_view name,
                                              std::string_view sealed) const {
  if (sealed.size() < kBytesAdded ||
      sealed.substr(0, kMagic.size()) != kMagic) {
    return absl::FailedPreconditionError(
        "expected a sealed value, got something else: an older rollcalld, or "
        "another program, wrote it");
  }
  const std::string_view nonce = sealed.substr(kMagic.size(), kNonceBytes);
  const std::string_view text =
      sealed.substr(kMagic.size() + kNonceBytes, sealed.size() - kBytesAdded);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  std::string value(text.size(), '\0');
  const openssl::CipherContext context = MakeContext();
  int size = 0;
  const bool opened =
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                         openssl::Bytes(std::string_view(key_)),
                         openssl::Bytes(nonce)) == 1 &&
      EVP_DecryptUpdate(context.get(), nullptr, &size, openssl::Bytes(name),
                        static_cast<int>(name.size())) == 1 &&
      EVP_DecryptUpdate(context.get(), openssl::Bytes(value), &size,
                        openssl::Bytes(text),
                        static_cast<int>(text.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes,
                          tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context.get(), openssl::Bytes(value) + size, &size) ==
          1;
  if (opened) return value;
  Wipe(value);
  ERR_clear_error();
  return absl::FailedPreconditionError(
      "expected a value sealed for this key with the secret of these daemons, "
      "got one that cannot be opened: it was changed or moved in etcd, or "
      "sealed with another secret");
}

}  // namespace rollcall
