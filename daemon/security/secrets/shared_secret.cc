#include "daemon/security/secrets/shared_secret.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/hex.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

constexpr size_t kBytesMade = 32;
constexpr size_t kBytesMin = 16;
constexpr size_t kSharedSecretTextBytesMax = 1 << 10;
constexpr size_t kTokenSecretBytes = 16;

// Hex digits are valid base64 too. As base64, too few of them would count as
// enough bytes.
bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isxdigit(c); });
}

}  // namespace

std::string SharedSecret::MakeText() {
  return absl::WebSafeBase64Escape(RandomBytes(kBytesMade));
}

absl::StatusOr<SharedSecret> SharedSecret::Parse(std::string_view string) {
  const absl::string_view text = absl::StripAsciiWhitespace(
      absl::string_view(string.data(), string.size()));
  std::string bytes;
  size_t bytes_min = kBytesMin;
  if (text.size() <= kSharedSecretTextBytesMax) {
    if (IsHex(text)) {
      if (text.size() % 2 == 0) bytes = FromHex(text);
    } else {
      bytes_min = kBytesMade;
      if (!absl::WebSafeBase64Unescape(text, &bytes) &&
          !absl::Base64Unescape(text, &bytes)) {
        bytes.clear();
      }
    }
  }
  if (bytes.size() < bytes_min) {
    Wipe(bytes);
    return absl::InvalidArgumentError(
        "the shared secret: expected 32 or more hex digits, or base64 of 32 or "
        "more random bytes, got something else or fewer; make one with "
        "`rollcall token secret`");
  }
  return SharedSecret(std::move(bytes));
}

std::string SharedSecret::Text() const {
  return absl::BytesToHexString(bytes_);
}

std::string SharedSecret::Derive(std::string_view purpose, size_t bytes) const {
  return DeriveKey(bytes_, purpose, bytes);
}

v1::JoinToken SharedSecret::Token(v1::Role role) const {
  v1::JoinToken token;
  token.set_id(absl::StrCat("shared-", RoleWord(role)));
  token.set_secret(
      Derive(absl::StrCat("token ", RoleWord(role)), kTokenSecretBytes));
  return token;
}

}  // namespace rollcall
