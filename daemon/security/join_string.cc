#include "daemon/security/join_string.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/core/admission.h"
#include "daemon/core/check.h"

namespace rollcall {
namespace {

constexpr char kPrefix[] = "rc0.";
constexpr size_t kTextBytesMax = 8 << 10;
constexpr size_t kTokenIdBytes = 6;
constexpr size_t kSecretBytes = 16;
constexpr size_t kSecretBytesMax = 64;
constexpr int kEndpointsMax = 64;
constexpr size_t kEndpointBytesMax = 300;

bool IsTokenId(std::string_view id) {
  if (id.empty() || id.size() > kSecretBytesMax) return false;
  for (unsigned char c : id) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') {
      return false;
    }
  }
  return true;
}

// HOST:PORT with a port of 1 to 65535; the host is a name, an IPv4 address or
// an IPv6 address in brackets.
bool IsEndpoint(std::string_view endpoint) {
  if (endpoint.size() > kEndpointBytesMax) return false;
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = endpoint.substr(0, colon);
  const std::string_view digits = endpoint.substr(colon + 1);
  if (digits.empty() || digits.size() > 5) return false;
  int port = 0;
  for (unsigned char c : digits) {
    if (!absl::ascii_isdigit(c)) return false;
    port = port * 10 + (c - '0');
  }
  if (port < 1 || port > 65535) return false;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return AdmitAddress(host.substr(1, host.size() - 2)).ok();
  }
  return AdmitNodeName(host).ok();
}

absl::Status NotAJoinString(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "not a join string: ", why,
      "; copy the whole of what `rollcall launch` printed after `join`"));
}

absl::Status CheckJoinString(const v1::JoinString& join) {
  if (join.endpoints().empty() || join.endpoints_size() > kEndpointsMax) {
    return NotAJoinString(absl::StrCat("expected 1 to ", kEndpointsMax,
                                       " endpoints, got ",
                                       join.endpoints_size()));
  }
  for (const std::string& endpoint : join.endpoints()) {
    if (!IsEndpoint(endpoint)) {
      return NotAJoinString(
          absl::StrCat("expected an endpoint HOST:PORT, got \"",
                       absl::CHexEscape(endpoint.substr(0, 64)), "\""));
    }
  }
  if (absl::Status job = AdmitJobId(join.job()); !job.ok()) {
    return NotAJoinString(std::string(job.message()));
  }
  if (!IsTokenId(join.token().id()) || join.token().secret().empty() ||
      join.token().secret().size() > kSecretBytesMax) {
    return NotAJoinString("its token is not one");
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeJoinString(const v1::JoinString& join) {
  return absl::StrCat(kPrefix,
                      absl::WebSafeBase64Escape(join.SerializeAsString()));
}

absl::StatusOr<v1::JoinString> DecodeJoinString(std::string_view string) {
  absl::string_view text = absl::StripAsciiWhitespace(
      absl::string_view(string.data(), string.size()));
  if (text.size() > kTextBytesMax) {
    return NotAJoinString(absl::StrCat("expected at most ", kTextBytesMax,
                                       " bytes, got ", text.size()));
  }
  if (!absl::ConsumePrefix(&text, kPrefix)) {
    const bool other = text.size() > 3 && absl::StartsWith(text, "rc") &&
                       absl::ascii_isdigit(text[2]) && text[3] == '.';
    return NotAJoinString(
        other ? absl::StrCat("it is of version \"", text.substr(0, 4),
                             "\" and this rollcall knows \"", kPrefix,
                             "\" only: use the same rollcall everywhere")
              : absl::StrCat("it does not begin with \"", kPrefix, "\""));
  }
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes)) {
    return NotAJoinString("what follows its prefix is not base64url");
  }
  v1::JoinString join;
  if (!join.ParseFromString(bytes)) {
    return NotAJoinString("it is cut or altered");
  }
  if (absl::Status fits = CheckJoinString(join); !fits.ok()) return fits;
  return join;
}

v1::JoinToken MakeToken() {
  // 32 letters, so that every byte gives one without bias.
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz234567";
  v1::JoinToken token;
  for (unsigned char c : RandomBytes(kTokenIdBytes)) {
    token.mutable_id()->push_back(kLetters[c % 32]);
  }
  token.set_secret(RandomBytes(kSecretBytes));
  return token;
}

bool SameToken(const v1::JoinToken& a, const v1::JoinToken& b) {
  if (a.id() != b.id() || a.secret().size() != b.secret().size()) return false;
  // An empty secret is no secret.
  return !a.secret().empty() &&
         CRYPTO_memcmp(a.secret().data(), b.secret().data(),
                       a.secret().size()) == 0;
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
      hex.size() > 2 * kSecretBytesMax) {
    return unfit;
  }
  for (unsigned char c : hex) {
    if (!absl::ascii_isdigit(c) && (c < 'a' || c > 'f')) return unfit;
  }
  v1::JoinToken token;
  token.set_id(id);
  token.set_secret(absl::HexStringToBytes(hex));
  return token;
}

std::string RandomBytes(size_t bytes) {
  std::string random(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {
    const ssize_t got = getrandom(random.data() + have, bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    // Without randomness there is no secret to go on with.
    CHECK_GT(got, 0);
    have += static_cast<size_t>(got);
  }
  return random;
}

}  // namespace rollcall
