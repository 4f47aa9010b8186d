// What a user pastes or an unauthenticated client sends in order to join: join
// strings, tokens, endpoints, and the refusal in a stream's status.
//
// Oracle: what is accepted follows its grammar and is the same after it is
// written and read again. The message of a refusal is printable and contains no
// secret.
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "client/admin/addresses.h"
#include "daemon/core/admission/admission.h"
#include "daemon/security/join_string.h"
#include "daemon/security/secrets/token.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

constexpr char kSecretWord[] = "S3CRET-";

// Checks the error for a text that was not accepted.
void CheckRefusal(const absl::Status& status) {
  Expect(status.code() == absl::StatusCode::kInvalidArgument,
         "what cannot be read is INVALID_ARGUMENT");
  ExpectPrintable("a refusal", std::string(status.message()));
}

void CheckJoin(const v1::JoinString& join) {
  ExpectPrintable(join);
  Expect(AdmitJobId(join.job()).ok() || join.job().empty(), "a job",
         join.job());
  Expect(!join.endpoints().empty(), "a join string has an endpoint");
  for (const std::string& endpoint : join.endpoints()) {
    Expect(ParseHostPort(endpoint).ok(), "an endpoint can be dialled",
           endpoint);
  }
  const auto again = DecodeJoinString(EncodeJoinString(join));
  Expect(again.ok() && again->SerializeAsString() == join.SerializeAsString(),
         "a join string comes back the same");
}

void Join(std::string_view text) {
  const auto join = DecodeJoinString(text);
  if (!join.ok()) return CheckRefusal(join.status());
  CheckJoin(*join);
}

// The bytes inside a join string, so that the fuzzer need not find base64 by
// chance.
void JoinBytes(std::string_view bytes) {
  Join("rc1." + absl::WebSafeBase64Escape(
                    absl::string_view(bytes.data(), bytes.size())));
}

void JoinFields(Feed& feed) {
  v1::JoinString join;
  for (uint32_t i = feed.Pick(4); i > 0; --i) {
    join.add_endpoints(feed.Flag() ? feed.String() : "node-1.example:29400");
  }
  join.set_job(feed.Flag() ? feed.String() : "demo");
  join.set_ca_pin(std::string(feed.Flag() ? feed.Byte() : 32, 'p'));
  join.mutable_token()->set_id(feed.Flag() ? feed.String() : "abc123");
  // This word is in no error message of ours, so it must not be in this one.
  const bool elsewhere =
      absl::StrContains(join.SerializeAsString(), kSecretWord);
  join.mutable_token()->set_secret(kSecretWord + feed.String());
  const auto read = DecodeJoinString(EncodeJoinString(join));
  if (read.ok()) return CheckJoin(*read);
  CheckRefusal(read.status());
  Expect(elsewhere || !absl::StrContains(read.status().message(), kSecretWord),
         "a secret is not told", std::string(read.status().message()));
}

void Token(std::string_view text) {
  const auto token = ParseTokenText(text);
  if (!token.ok()) return CheckRefusal(token.status());
  ExpectPrintable(*token);
  const auto again = ParseTokenText(TokenText(*token));
  Expect(again.ok() && again->id() == token->id() &&
             again->secret() == token->secret(),
         "a token comes back the same", text);
}

void Endpoint(std::string_view text) {
  const auto read = ParseHostPort(absl::string_view(text.data(), text.size()));
  if (!read.ok()) return;
  Expect(read->port >= 0 && read->port <= 65535, "a port is in its range");
  const std::string formatted = FormatHostPort(*read);
  const auto again = ParseHostPort(formatted);
  Expect(again.ok() && again->host == read->host && again->port == read->port,
         "an endpoint comes back the same", formatted);
}

void Addresses(std::string_view text) {
  IsEndpoint(text);
  IsLoopback(text);
  AdmitNodeName(text).IgnoreError();
  AdmitJobId(text).IgnoreError();
  if (AdmitAddress(text).ok()) ExpectPrintable("an address", text);
  const absl::Status status = AdmitAddress(text);
  ExpectPrintable("a refusal", std::string(status.message()));
}

// Read as an agent reads a status's error details.
void Details(std::string_view bytes) {
  v1::Refusal refusal;
  if (refusal.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    ExpectSerializes(refusal);
  }
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rollcall;
  Feed feed(data, size);
  switch (feed.Pick(7)) {
    case 0:
      Join(feed.Rest());
      break;
    case 1:
      JoinBytes(feed.Rest());
      break;
    case 2:
      JoinFields(feed);
      break;
    case 3:
      Token(feed.Rest());
      break;
    case 4:
      Endpoint(feed.Rest());
      break;
    case 5:
      Addresses(feed.Rest());
      break;
    default:
      Details(feed.Rest());
      break;
  }
  return 0;
}
