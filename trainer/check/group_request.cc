#include "trainer/check/group_request.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/text/hex.h"

namespace rollcall {
namespace {

constexpr int kLimitMsMax = 3'600'000;

absl::Status BadGroup(absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(kGroupCheckVariable, ": expected ", expected,
                   "; the agent sets it, do not set it by hand"));
}

}  // namespace

absl::StatusOr<GroupRequest> GroupRequest::Parse(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  constexpr size_t kBefore = 4;
  if (words.size() < kBefore + 1 || words.size() > kBefore + kNodesMax) {
    return BadGroup("a place, a port, a limit, a secret and 1 to 3 addresses");
  }
  GroupRequest request;
  request.addresses.assign(words.begin() + kBefore, words.end());
  for (const std::string& address : request.addresses) {
    if (address.empty()) return BadGroup("an address for each node");
  }
  if (!absl::SimpleAtoi(words[0], &request.place) ||
      request.place >= request.addresses.size()) {
    return BadGroup("a place among the addresses");
  }
  uint32_t port = 0;
  if (!absl::SimpleAtoi(words[1], &port) || port > UINT16_MAX ||
      (port == 0) != (request.place == 0)) {
    return BadGroup("a port, which is 0 for the first node only");
  }
  request.port = static_cast<uint16_t>(port);
  int limit_ms = 0;
  if (!absl::SimpleAtoi(words[2], &limit_ms) || limit_ms < 1 ||
      limit_ms > kLimitMsMax) {
    return BadGroup("a limit of 1 to 3600000 ms");
  }
  request.limit = absl::Milliseconds(limit_ms);
  const std::string& hex = words[3];
  bool digits = hex.size() == 2 * kSecretBytes;
  for (const char c : hex) digits = digits && absl::ascii_isxdigit(c);
  if (!digits) return BadGroup("a secret of 32 hex digits");
  request.secret = FromHex(hex);
  return request;
}

absl::StatusOr<GroupRequest> TakeGroupRequest() {
  char* const text = std::getenv(kGroupCheckVariable);
  if (text == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--check-group: ", kGroupCheckVariable,
        " is not set; this flag is for the rollcall agent (rollcall "
        "launch --node-check), use --check"));
  }
  absl::StatusOr<GroupRequest> request = GroupRequest::Parse(text);
  std::memset(text, ' ', std::strlen(text));
  unsetenv(kGroupCheckVariable);
  return request;
}

}  // namespace rollcall
