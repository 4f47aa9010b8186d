// Commands: what each `rollcall` command does with its parsed flags.
//
// Each blocks until it is done and returns the process's exit code.
#ifndef ROLLCALL_CLIENT_CLI_COMMANDS_H_
#define ROLLCALL_CLIENT_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/flags/flags.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {

// How long a command waits for the daemon's answer.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(5);

// Runs `launch` or `join`, depending on this node's platform.
int RunRunCommand(RunFlags& flags);
int RunDetectCommand(const DetectFlags& flags);
// Reads a run spec and returns the `launch` that the spec and the command
// line's flags describe. INVALID_ARGUMENT: the message has a line for each
// mistake.
absl::StatusOr<Invocation> ReadSpec(const SpecFlags& flags);
int RunLaunchCommand(const LaunchFlags& flags);
// `join`, and the hidden `agent` that a launcher starts. Overwrites the secrets
// in `flags` once they are no longer needed.
int RunJoinCommand(JoinFlags& flags);
int RunStatusCommand(const StatusFlags& flags);
int RunStopCommand(const StopFlags& flags);
int RunDrainCommand(const DrainFlags& flags);
int RunEvictCommand(const EvictFlags& flags);
int RunTokenCommand(const TokenFlags& flags);
// Returns 0, 10, 20 or 30, by the most severe finding; 2, 69 or 77 if the given
// job cannot be used.
int RunDoctorCommand(const DoctorFlags& flags);
// Reads the secret that the launcher passed into `flags`.
int RunDaemonCommand(DaemonFlags& flags);
// Reads the secret that the launcher passed into `flags`.
int RunRemoteCommand(RemoteFlags& flags);
int RunSubmitCommand(SubmitFlags& flags);
int RunRenderCommand(const RenderFlags& flags);
int RunCompletionCommand(const CompletionFlags& flags);
int RunVersionCommand(const VersionFlags& flags);
// The hidden command `facts`; `arguments` do not include its name.
int RunFactsCommand(const std::vector<std::string>& arguments);

// Warns about torchrun's flags that are ignored, and about a variable in the
// command that was expanded too early.
void WarnOfCommandLine(const LocalFlags& flags,
                       const std::vector<std::string>& command);

// Prints `rollcall: TEXT` to stderr, without the join strings in TEXT.
void Complain(absl::string_view text);
// Prints the message of a failed call; returns the exit code for it.
int Fail(const absl::Status& status);
// Reports output that could not be written; returns the exit code. `error`: an
// errno; 0: unknown.
int FailToPrint(int error);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_COMMANDS_H_
