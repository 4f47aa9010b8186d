#include "daemon/security/secrets/token.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/hex.h"
#include "daemon/base/text/printable.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr size_t kIdBytes = 6;
constexpr size_t kSecretBytes = 16;

bool IsTokenId(std::string_view id) {
  if (id.empty() || id.size() > kTokenBytesMax) return false;
  for (unsigned char c : id) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') {
      return false;
    }
  }
  return true;
}

}  // namespace

v1::JoinToken MakeToken() {
  // There are 32 letters, so that `% 32` of a random byte has no bias.
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz234567";
  v1::JoinToken token;
  for (unsigned char c : RandomBytes(kIdBytes)) {
    token.mutable_id()->push_back(kLetters[c % 32]);
  }
  token.set_secret(RandomBytes(kSecretBytes));
  return token;
}

bool IsToken(const v1::JoinToken& token) {
  return IsTokenId(token.id()) && !token.secret().empty() &&
         token.secret().size() <= kTokenBytesMax;
}

std::string TokenText(const v1::JoinToken& token) {
  return absl::StrCat(token.id(), ".", absl::BytesToHexString(token.secret()));
}

absl::StatusOr<v1::JoinToken> ParseTokenText(std::string_view string) {
  const absl::string_view text = absl::StripAsciiWhitespace(
      absl::string_view(string.data(), string.size()));
  const absl::Status unfit = absl::InvalidArgumentError(
      "not a token: expected ID.SECRET, the secret in lower-case hex of 1 to "
      "64 bytes");
  const size_t dot = text.find('.');
  if (dot == absl::string_view::npos) return unfit;
  const std::string id(text.substr(0, dot));
  const absl::string_view hex = text.substr(dot + 1);
  if (!IsTokenId(id) || hex.empty() || hex.size() % 2 != 0 ||
      hex.size() > 2 * kTokenBytesMax) {
    return unfit;
  }
  for (unsigned char c : hex) {
    if (!absl::ascii_isdigit(c) && (c < 'a' || c > 'f')) return unfit;
  }
  v1::JoinToken token;
  token.set_id(id);
  token.set_secret(FromHex(hex));
  return token;
}

std::string RoleWord(v1::Role role) {
  switch (role) {
    case v1::ROLE_WORKER:
      return "worker";
    case v1::ROLE_VIEWER:
      return "viewer";
    case v1::ROLE_ADMIN:
      return "admin";
    default:
      return "unknown";
  }
}

absl::StatusOr<v1::Role> ParseRole(std::string_view word) {
  for (const v1::Role role :
       {v1::ROLE_WORKER, v1::ROLE_VIEWER, v1::ROLE_ADMIN}) {
    if (word == RoleWord(role)) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("role: expected worker, viewer or admin, got \"",
                   Printable(word, 64), "\""));
}

}  // namespace rollcall
