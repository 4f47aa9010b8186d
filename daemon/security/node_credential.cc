#include "daemon/security/node_credential.h"

#include "absl/strings/str_cat.h"
#include "daemon/security/digest.h"

namespace rollcall {

std::string NodeCredential(std::string_view key, std::string_view job,
                           std::string_view run, std::string_view node,
                           uint64_t incarnation, bool launcher) {
  // The grammar of these names has no '/'.
  return HmacSha256(key,
                    absl::StrCat("node credential v1/", std::string(job), "/",
                                 std::string(run), "/", std::string(node), "/",
                                 incarnation, launcher ? "/launcher" : ""));
}

bool IsOwnCredential(std::string_view key, const v1::Hello& hello) {
  const uint64_t incarnation = hello.previous_incarnation() != 0
                                   ? hello.previous_incarnation()
                                   : hello.incarnation();
  return SameSecret(hello.node_credential(),
                    NodeCredential(key, hello.job(), hello.run(), hello.node(),
                                   incarnation, hello.launcher()));
}

}  // namespace rollcall
