#include "daemon/security/secrets/node_credential.h"

#include "absl/strings/str_cat.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr size_t kMacBytes = 32;
constexpr size_t kNumberBytes = 8;
constexpr size_t kCredentialBytes = kMacBytes + 2 * kNumberBytes;

void AppendNumber(std::string& bytes, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(number >> shift & 0xff));
  }
}

uint64_t NumberAt(std::string_view bytes, size_t from) {
  uint64_t number = 0;
  for (size_t i = from; i < from + kNumberBytes; ++i) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

std::string Make(std::string_view key, std::string_view run,
                 const v1::Hello& hello, uint64_t incarnation, uint64_t epoch,
                 uint64_t ends_at) {
  // These names contain no '/', so different inputs give different texts.
  std::string credential =
      HmacSha256(key, absl::StrCat("node credential v2/", hello.job(), "/",
                                   std::string(run), "/", hello.node(), "/",
                                   incarnation, "/", epoch, "/", ends_at,
                                   hello.launcher() ? "/launcher" : ""));
  AppendNumber(credential, epoch);
  AppendNumber(credential, ends_at);
  return credential;
}

}  // namespace

std::string NodeCredential(std::string_view key, std::string_view run,
                           const v1::Hello& hello,
                           const CredentialTerms& terms) {
  return Make(key, run, hello, hello.incarnation(), terms.epoch,
              static_cast<uint64_t>(absl::ToUnixSeconds(terms.ends_at)));
}

std::optional<CredentialTerms> TermsOfCredential(std::string_view key,
                                                 const v1::Hello& hello) {
  const std::string& shown = hello.node_credential();
  if (shown.size() != kCredentialBytes) return std::nullopt;
  const uint64_t incarnation = hello.previous_incarnation() != 0
                                   ? hello.previous_incarnation()
                                   : hello.incarnation();
  const uint64_t epoch = NumberAt(shown, kMacBytes);
  const uint64_t ends_at = NumberAt(shown, kMacBytes + kNumberBytes);
  if (!SameSecret(shown,
                  Make(key, hello.run(), hello, incarnation, epoch, ends_at))) {
    return std::nullopt;
  }
  return CredentialTerms{epoch,
                         absl::FromUnixSeconds(static_cast<int64_t>(ends_at))};
}

}  // namespace rollcall
