// How a command says that it failed.
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"

namespace rollcall {

void Complain(absl::string_view text) {
  const std::string line = absl::StrCat("rollcall: ", text, "\n");
  [[maybe_unused]] ssize_t wrote =
      write(STDERR_FILENO, line.data(), line.size());
}

int FailToPrint(int error) {
  Complain(absl::StrCat(
      "standard output: ",
      error == 0 ? "an earlier write failed" : std::strerror(error),
      "; the output of this command is incomplete"));
  return kExitNotPrinted;
}

int Fail(const absl::Status& status) {
  Complain(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitRefused;
    default:
      return kExitRendezvous;
  }
}

}  // namespace rollcall
