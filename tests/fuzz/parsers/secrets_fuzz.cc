// Input that decides about trust: the certificates of a server that may be the
// daemon, and the keys and secrets that users put into files.
//
// Oracle: no chain is valid for a pin of an unknown CA. An accepted key or
// secret is strong enough and is the same after it is written and read again.
// The message of a refusal is printable and does not contain the input.
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "daemon/security/certificates/authority.h"
#include "daemon/security/certificates/chain.h"
#include "daemon/security/secrets/node_credential.h"
#include "daemon/security/secrets/shared_secret.h"
#include "daemon/security/secrets/token.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

constexpr char kSecret[] = "00112233445566778899aabbccddeeff";

void CheckRefusal(const absl::Status& status, std::string_view given) {
  const std::string said(status.message());
  ExpectPrintable("a refusal", said);
  // A text with a blank is no secret. The fuzzer sees our own messages in the
  // comparison and uses them as input, and those have blanks.
  const bool ours = absl::StrContains(std::string(given), ' ');
  Expect(
      given.size() < 16 || ours || !absl::StrContains(said, std::string(given)),
      "what was given is not told", said);
}

const Authority& OwnAuthority() {
  static const Authority authority =
      *Authority::FromSecret(*SharedSecret::Parse(kSecret));
  return authority;
}

// Issued bytes, with some of them changed.
std::string Twisted(Feed& feed, std::string twisted) {
  for (uint32_t i = feed.Pick(4); i > 0; --i) {
    const size_t at = (feed.Byte() << 8 | feed.Byte()) % twisted.size();
    if (feed.Flag()) {
      twisted[at] = static_cast<char>(feed.Byte());
    } else {
      twisted.erase(at, feed.Byte());
    }
    if (twisted.empty()) break;
  }
  return twisted;
}

std::string OwnChain() {
  static const std::string chain =
      OwnAuthority().Issue({"node-1", "10.7.0.1"})->chain;
  return chain;
}

// A certificate of another CA, followed by our CA's certificate, which is
// public.
std::string StolenChain() {
  static const std::string leaf =
      Authority::FromSecret(*SharedSecret::Parse(std::string(32, 'e')))
          ->Issue({"node-1"})
          ->chain;
  static const std::string chain =
      leaf.substr(0, leaf.find("-----BEGIN", 1)) + OwnAuthority().certificate();
  return chain;
}

void CheckStolen(std::string_view chain) {
  Expect(!VerifyPinned(chain, OwnAuthority().pin()).ok(),
         "a CA's certificate is no good without its key", chain);
}

void CheckChain(std::string_view chain) {
  const absl::Status nobody = VerifyPinned(chain, std::string(32, 'p'));
  Expect(!nobody.ok(), "no chain is good for nobody's pin", chain);
  CheckRefusal(nobody, chain);
  const absl::Status own = VerifyPinned(chain, OwnAuthority().pin());
  CheckRefusal(own, chain);
  const absl::Status issued =
      VerifyIssued(chain, OwnAuthority().certificate(), "node-1");
  CheckRefusal(issued, chain);
  if (!issued.ok()) return;
  Expect(!VerifyIssued(chain, OwnAuthority().certificate(), "node-2").ok(),
         "a certificate is good for its own names alone", chain);
}

void GivenCa(std::string_view pem) {
  CheckRefusal(VerifyIssued(OwnAuthority().certificate(), pem, "node-1"), pem);
}

void Key(std::string_view pem) {
  const auto authority = Authority::FromKey(pem);
  if (!authority.ok()) return CheckRefusal(authority.status(), pem);
  Expect(authority->pin().size() == kPinBytes, "a pin has its size");
  const auto again = Authority::FromKey(authority->KeyPem());
  Expect(again.ok() && again->pin() == authority->pin(),
         "a key comes back the same");
}

void Secret(std::string_view text) {
  const auto secret = SharedSecret::Parse(text);
  if (!secret.ok()) return CheckRefusal(secret.status(), text);
  Expect(text.size() >= 22, "a secret has 128 bits", text);
  Expect(IsToken(secret->Token(v1::ROLE_WORKER)), "it gives a token");
}

void Credential(Feed& feed) {
  v1::Hello hello;
  hello.set_job(feed.String());
  hello.set_run(feed.String());
  hello.set_node(feed.String());
  hello.set_incarnation(feed.Number());
  hello.set_node_credential(feed.String());
  const std::string key(32, 'k');
  Expect(!TermsOfCredential(key, hello).has_value(),
         "nobody guesses a credential");
  hello.set_node_credential(
      NodeCredential(key, hello.run(), hello, {3, absl::FromUnixSeconds(9)}));
  Expect(TermsOfCredential(key, hello).has_value(), "a credential is its own");
  // The grammar of names has no slash, so admission refuses such a Hello.
  if (absl::StrContains(hello.ShortDebugString(), "/")) return;
  hello.set_node(hello.node() + hello.run().substr(0, 1));
  hello.set_run(hello.run().empty() ? "r" : hello.run().substr(1));
  Expect(!TermsOfCredential(key, hello).has_value(),
         "a credential speaks for one node");
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rollcall;
  Feed feed(data, size);
  switch (feed.Pick(8)) {
    case 0:
      CheckChain(feed.Rest());
      break;
    case 1:
      CheckChain(Twisted(feed, OwnChain()));
      break;
    case 2:
      Key(feed.Rest());
      break;
    case 3:
      Secret(feed.Rest());
      break;
    case 4: {
      const std::string_view word = feed.Rest();
      const auto role = ParseRole(word);
      if (!role.ok()) {
        ExpectPrintable("a refusal", std::string(role.status().message()));
      } else {
        Expect(RoleWord(*role) == word, "a role comes back the same", word);
      }
      break;
    }
    case 5:
      GivenCa(feed.Rest());
      break;
    case 6:
      CheckStolen(Twisted(feed, StolenChain()));
      break;
    default:
      Credential(feed);
      break;
  }
  return 0;
}
