#include "daemon/security/secrets/incarnation_nonce.h"

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {

std::string DrawIncarnationNonce() {
  return RandomBytes(Limits::incarnation_nonce_bytes);
}

uint64_t IncarnationOf(std::string_view job, std::string_view node,
                       std::string_view nonce) {
  // Neither a job id nor a node name contains a slash, so different inputs give
  // different texts.
  const std::string digest =
      Sha256(absl::StrCat("rollcall incarnation v1/", std::string(job), "/",
                          std::string(node), "/", std::string(nonce)));
  uint64_t incarnation = 0;
  for (size_t i = 0; i < sizeof(incarnation); ++i) {
    incarnation = incarnation << 8 | static_cast<unsigned char>(digest[i]);
  }
  return incarnation == 0 ? 1 : incarnation;
}

}  // namespace rollcall
