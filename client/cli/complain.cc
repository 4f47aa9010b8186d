// Messages of commands that failed, and their exit codes.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/flags/argv.h"
#include "client/cli/flags/command_words.h"

namespace rollcall {

void Complain(absl::string_view text) {
  // A word that is in the wrong place may be a join string.
  const std::string line =
      absl::StrCat("rollcall: ", WithoutJoinStrings(text), "\n");
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

void WarnOfCommandLine(const LocalFlags& flags,
                       const std::vector<std::string>& command) {
  for (const std::string& name : flags.unneeded) {
    Complain(absl::StrCat("WARNING: ", name,
                          " is not needed and changes nothing: the daemon "
                          "gives out node ranks and the endpoint of rank 0"));
  }
  // If the ranks run as another user, their files are always below /tmp.
  const char* runtime_dir = getenv("XDG_RUNTIME_DIR");
  const bool in_tmp = runtime_dir == nullptr || !flags.rank_user.empty();
  for (const std::string& advice :
       {EmptyValueAdvice(command), SeparateWorldsAdvice(command, flags.once),
        ContainerAdvice(command, in_tmp ? "" : runtime_dir)}) {
    if (!advice.empty()) Complain(absl::StrCat("WARNING: ", advice));
  }
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
