#include "client/rank/rank_location.h"

#include <sys/un.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

absl::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? absl::string_view() : absl::string_view(value);
}

template <typename Number>
absl::Status ReadNumber(const char* name, Number* number) {
  const absl::string_view text = Variable(name);
  if (absl::SimpleAtoi(text, number)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, "=\"", text, "\": expected a number, as ROLLCALL_SOCKET is set; ",
      "start this process by `rollcall launch` or `rollcall join`, or set "
      "LOCAL_RANK yourself for an agent with --attach"));
}

}  // namespace

absl::StatusOr<RankLocation> RankLocation::FromEnvironment() {
  RankLocation place;
  place.socket = std::string(Variable("ROLLCALL_SOCKET"));
  if (place.socket.empty()) {
    return absl::FailedPreconditionError(
        "ROLLCALL_SOCKET is not set: no rollcall agent started this process; "
        "start it as `rollcall launch -- COMMAND`");
  }
  constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
  if (place.socket.size() > kPathBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("ROLLCALL_SOCKET has ", place.socket.size(),
                     " bytes, a Unix socket's path at most ", kPathBytesMax,
                     "; give the agent a shorter TMPDIR or XDG_RUNTIME_DIR"));
  }
  if (absl::Status s = ReadNumber("LOCAL_RANK", &place.local_rank); !s.ok()) {
    return s;
  }
  if (place.local_rank >= Limits::ranks_per_node_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("LOCAL_RANK=", place.local_rank, ": expected less than ",
                     Limits::ranks_per_node_max));
  }
  // An agent that has not started this process has not set the variable.
  if (std::getenv("ROLLCALL_GENERATION") == nullptr) return place;
  if (absl::Status s = ReadNumber("ROLLCALL_GENERATION", &place.generation);
      !s.ok()) {
    return s;
  }
  return place;
}

}  // namespace rollcall
