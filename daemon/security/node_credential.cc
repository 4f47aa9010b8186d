#include "daemon/security/node_credential.h"

#include "absl/strings/str_cat.h"
#include "daemon/security/digest.h"

namespace rollcall {
namespace {

constexpr size_t kMacBytes = 32;
constexpr size_t kEpochBytes = 8;

}  // namespace

std::string NodeCredential(std::string_view key, std::string_view job,
                           std::string_view run, std::string_view node,
                           uint64_t incarnation, uint64_t epoch,
                           bool launcher) {
  // The grammar of these names has no '/'.
  std::string credential = HmacSha256(
      key, absl::StrCat("node credential v1/", std::string(job), "/",
                        std::string(run), "/", std::string(node), "/",
                        incarnation, launcher ? "/launcher" : "",
                        epoch > 0 ? absl::StrCat("/epoch/", epoch) : ""));
  if (epoch == 0) return credential;
  for (int shift = 56; shift >= 0; shift -= 8) {
    credential.push_back(static_cast<char>(epoch >> shift & 0xff));
  }
  return credential;
}

std::optional<uint64_t> EpochOfCredential(std::string_view key,
                                          const v1::Hello& hello) {
  const std::string& shown = hello.node_credential();
  uint64_t epoch = 0;
  if (shown.size() == kMacBytes + kEpochBytes) {
    for (size_t i = kMacBytes; i < shown.size(); ++i) {
      epoch = epoch << 8 | static_cast<unsigned char>(shown[i]);
    }
  }
  const uint64_t incarnation = hello.previous_incarnation() != 0
                                   ? hello.previous_incarnation()
                                   : hello.incarnation();
  const bool same = SameSecret(
      shown, NodeCredential(key, hello.job(), hello.run(), hello.node(),
                            incarnation, epoch, hello.launcher()));
  return same ? std::optional<uint64_t>(epoch) : std::nullopt;
}

}  // namespace rollcall
