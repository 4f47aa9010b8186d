// Join strings, tokens, certificates, keys.
#include <string>

#include "daemon/security/certificates/authority.h"
#include "daemon/security/join_string.h"
#include "daemon/security/secrets/shared_secret.h"
#include "tests/fuzz/seeds/seeds.h"

namespace rollcall {
namespace {

constexpr char kSecret[] = "00112233445566778899aabbccddeeff";

}  // namespace

void Doors(Corpus& corpus) {
  v1::JoinString join;
  join.add_endpoints("node-1.example:29400");
  join.add_endpoints("[fd77::1]:29400");
  join.set_job("demo");
  join.set_ca_pin(std::string(32, 'p'));
  join.mutable_token()->set_id("abc123");
  join.mutable_token()->set_secret("0123456789abcdef");
  const auto add = [&](const std::string& name, int kind,
                       const std::string& text) {
    corpus.Add("join", name, Script().Bytes({kind}).Raw(text).text());
  };
  add("string", 0, EncodeJoinString(join));
  add("older", 0, "rc0.AAAA");
  add("bytes", 1, join.SerializeAsString());
  add("fields", 2, std::string("\1\0\0\0\0", 5));
  add("token", 3, "abc123.00ff10");
  add("endpoint", 4, "[fd77::1]:29400");
  add("name", 5, "node-1.example");
  add("address", 5, "fd77::10.7.0.1");
  v1::Refusal refusal;
  refusal.set_code(v1::REFUSAL_CODE_LOST);
  refusal.set_text("given up");
  add("details", 6, refusal.SerializeAsString());
}

void Secrets(Corpus& corpus) {
  const Authority authority =
      *Authority::FromSecret(*SharedSecret::Parse(kSecret));
  const auto add = [&](const std::string& name, int kind,
                       const std::string& text) {
    corpus.Add("secrets", name, Script().Bytes({kind}).Raw(text).text());
  };
  add("chain", 0, authority.certificate());
  add("issued", 1, std::string(1, '\0'));
  add("changed", 1, std::string("\1\1\0\1x", 5));
  add("key", 2, authority.KeyPem());
  add("secret", 3, kSecret);
  add("secret64", 3, "AAECAwQFBgcICQoLDA0ODw==");
  add("role", 4, "viewer");
  add("ca", 5, authority.certificate());
  add("stolen", 6, std::string(1, '\0'));
  add("credential", 7, std::string("\0\4demo\0\1r\0\1a\7\0\1c", 15));
}

}  // namespace rollcall
