#include "daemon/security/certificates/chain.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/crypto/openssl_owned.h"

namespace rollcall {
namespace {

constexpr size_t kChainBytesMax = 64 << 10;
constexpr size_t kChainMax = 8;
// A CA file may contain all CAs that an organisation trusts.
constexpr size_t kCasMax = 512;

using openssl::Bio;
using openssl::Certificate;
using openssl::Reading;
using openssl::Store;
using openssl::StoreContext;

absl::Status NotOurs(const std::string& why) {
  ERR_clear_error();
  return absl::UnauthenticatedError(absl::StrCat(
      "this is not the expected daemon: ", why,
      "; nothing was sent to it. Use the whole join string that the launcher "
      "printed last, and check which server answers at this address"));
}

std::vector<Certificate> ReadChain(std::string_view pem, size_t count_max) {
  std::vector<Certificate> chain;
  const Bio bio = Reading(pem);
  while (chain.size() < count_max) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!next) break;
    chain.push_back(std::move(next));
  }
  ERR_clear_error();
  return chain;
}

std::vector<Certificate> ReadShown(std::string_view pem) {
  if (pem.size() > kChainBytesMax) return {};
  return ReadChain(pem, kChainMax);
}

// A stack that does not own its certificates.
struct Untrusted {
  STACK_OF(X509) * stack = sk_X509_new_null();
  ~Untrusted() { sk_X509_free(stack); }
};

}  // namespace

std::string PinOf(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return "";
  std::string pin = Sha256(std::string_view(reinterpret_cast<char*>(der),
                                            static_cast<size_t>(size)));
  OPENSSL_free(der);
  return pin;
}

absl::Status VerifyPinned(std::string_view chain_pem, std::string_view pin) {
  if (pin.size() != kPinBytes) return NotOurs("there is no pin to compare");
  const std::vector<Certificate> chain = ReadShown(chain_pem);
  if (chain.empty()) return NotOurs("it presented no certificate");
  EVP_PKEY* authority = nullptr;
  for (size_t i = 1; i < chain.size(); ++i) {
    EVP_PKEY* key = X509_get0_pubkey(chain[i].get());
    if (key != nullptr && SameSecret(PinOf(key), pin)) authority = key;
  }
  if (authority == nullptr) {
    EVP_PKEY* shown = X509_get0_pubkey(chain.back().get());
    return NotOurs(absl::StrCat(
        "expected a CA key of digest ",
        absl::BytesToHexString(std::string(pin.substr(0, 8))), "..., got ",
        shown == nullptr
            ? "none"
            : absl::StrCat(absl::BytesToHexString(PinOf(shown).substr(0, 8)),
                           "...")));
  }
  if (X509_verify(chain.front().get(), authority) != 1) {
    return NotOurs("its certificate was not signed by its CA");
  }
  return absl::OkStatus();
}

absl::Status VerifyIssued(std::string_view chain_pem, std::string_view ca_pem,
                          const std::string& name) {
  const std::vector<Certificate> chain = ReadShown(chain_pem);
  if (chain.empty()) return NotOurs("it presented no certificate");
  const Store store(X509_STORE_new());
  for (const Certificate& ca : ReadChain(ca_pem, kCasMax)) {
    X509_STORE_add_cert(store.get(), ca.get());
  }
  const Untrusted between;
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(between.stack, chain[i].get());
  }
  const StoreContext context(X509_STORE_CTX_new());
  if (context == nullptr ||
      X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(),
                          between.stack) != 1) {
    return NotOurs("its certificates cannot be read");
  }
  X509_STORE_CTX_set_default(context.get(), "ssl_server");
  X509_VERIFY_PARAM* wanted = X509_STORE_CTX_get0_param(context.get());
  // OpenSSL accepts every certificate if the name is empty.
  const bool named =
      !name.empty() &&
      (AdmitAddress(name).ok()
           ? X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1
           : X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size()) ==
                 1);
  if (named && X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  return NotOurs(absl::StrCat(
      "--tls-ca did not issue its certificate for ", name, " (",
      X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())),
      ")"));
}

}  // namespace rollcall
