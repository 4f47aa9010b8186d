// Commands: what each `rollcall` command does, once its flags are understood.
//
// Each blocks until it is done and returns the process's exit code.
#ifndef ROLLCALL_CLIENT_CLI_COMMANDS_H_
#define ROLLCALL_CLIENT_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/flags.h"
#include "daemon/core/exit_codes.h"

namespace rollcall {

// How long a command waits for the daemon's answer.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(5);

int RunLaunchCommand(const LaunchFlags& flags);
// `join`, and the hidden `agent` that a launcher starts.
// Overwrites the secrets in `flags` once it needs them no more.
int RunJoinCommand(JoinFlags& flags);
int RunStatusCommand(const StatusFlags& flags);
int RunStopCommand(const StopFlags& flags);
int RunDrainCommand(const DrainFlags& flags);
int RunEvictCommand(const EvictFlags& flags);
int RunTokenCommand(const TokenFlags& flags);
// 0, 10, 20 or 30: the worst that it found. 2, 69 or 77: the job that it was
// given is none.
int RunDoctorCommand(const DoctorFlags& flags);
// Reads the secret that its launcher passed into `flags`.
int RunDaemonCommand(DaemonFlags& flags);
int RunVersionCommand(const VersionFlags& flags);
// The hidden command; `arguments` without its name.
int RunFactsCommand(const std::vector<std::string>& arguments);

// `rollcall: TEXT` on stderr.
void Complain(absl::string_view text);
// The same for a call that failed; the exit code that goes with it.
int Fail(const absl::Status& status);
// The same for output that could not be written: an errno; 0: not known.
int FailToPrint(int error);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_COMMANDS_H_
