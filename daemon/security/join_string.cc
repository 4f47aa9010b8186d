#include "daemon/security/join_string.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/core/admission/admission.h"
#include "daemon/security/certificates/chain.h"
#include "daemon/security/crypto/digest.h"
#include "daemon/security/secrets/token.h"

namespace rollcall {
namespace {

constexpr char kPrefix[] = "rc1.";
constexpr size_t kJoinStringBytesMax = 8 << 10;
constexpr size_t kCheckSumBytes = 4;
constexpr int kEndpointsMax = 64;
constexpr size_t kEndpointBytesMax = 300;

// The checksum detects a missing or changed character before the agent dials a
// daemon.
std::string CheckSum(const std::string& bytes) {
  return Sha256(bytes).substr(0, kCheckSumBytes);
}

absl::Status NotAJoinString(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("not a join string: ", why,
                   "; copy all that `rollcall launch` printed after `join`"));
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
  if (!join.job().empty()) {
    if (absl::Status job = AdmitJobId(join.job()); !job.ok()) {
      return NotAJoinString(std::string(job.message()));
    }
  }
  if (!IsToken(join.token())) return NotAJoinString("its token is not valid");
  if (!join.ca_pin().empty() && join.ca_pin().size() != kPinBytes) {
    return NotAJoinString(absl::StrCat("expected a pin of ", kPinBytes,
                                       " bytes, got ", join.ca_pin().size()));
  }
  if (!join.insecure()) return absl::OkStatus();
  for (const std::string& endpoint : join.endpoints()) {
    if (!IsLoopback(endpoint)) {
      return NotAJoinString(absl::StrCat(
          "it has no TLS, which is allowed on loopback only, and names ",
          endpoint));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeJoinString(const v1::JoinString& join) {
  std::string bytes = join.SerializeAsString();
  bytes.append(CheckSum(bytes));
  return absl::StrCat(kPrefix, absl::WebSafeBase64Escape(bytes));
}

absl::StatusOr<v1::JoinString> DecodeJoinString(std::string_view string) {
  absl::string_view text = absl::StripAsciiWhitespace(
      absl::string_view(string.data(), string.size()));
  if (text.size() > kJoinStringBytesMax) {
    return NotAJoinString(absl::StrCat("expected at most ", kJoinStringBytesMax,
                                       " bytes, got ", text.size()));
  }
  if (!absl::ConsumePrefix(&text, kPrefix)) {
    const bool other = text.size() > 3 && absl::StartsWith(text, "rc") &&
                       absl::ascii_isdigit(text[2]) && text[3] == '.';
    return NotAJoinString(
        other ? absl::StrCat("it is of version \"", text.substr(0, 4),
                             "\" and this rollcall knows \"", kPrefix,
                             "\" only: use the same rollcall on all nodes")
              : absl::StrCat("it does not begin with \"", kPrefix, "\""));
  }
  std::string bytes;
  // Several base64 texts decode to the same bytes. Only the one that
  // EncodeJoinString makes is accepted.
  if (!absl::WebSafeBase64Unescape(text, &bytes) ||
      absl::WebSafeBase64Escape(bytes) != text) {
    return NotAJoinString("what follows its prefix is not base64url");
  }
  v1::JoinString join;
  const size_t size = bytes.size() - std::min(bytes.size(), kCheckSumBytes);
  const std::string sum = bytes.substr(size);
  bytes.resize(size);
  if (sum != CheckSum(bytes) || !join.ParseFromString(bytes)) {
    return NotAJoinString("it is cut off or altered");
  }
  if (absl::Status fits = CheckJoinString(join); !fits.ok()) return fits;
  return join;
}

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

bool IsLoopback(std::string_view text) {
  std::string host(text);
  // The port begins after a colon that is the only one or that follows a
  // bracket.
  const size_t colon = host.rfind(':');
  if (colon != std::string::npos &&
      (host.find(':') == colon || (colon > 0 && host[colon - 1] == ']'))) {
    host.resize(colon);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost" || host == "::1") return true;
  return absl::StartsWith(host, "127.") && AdmitAddress(host).ok();
}

}  // namespace rollcall
