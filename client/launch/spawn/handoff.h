// Handoff: what the launcher's machine sends to start an agent on another host.
// remote_agent.h sends it through ssh's stdin to hosted_agent.h, so that no
// secret and no argument of the command is in an argument list or passes
// through a shell.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_HANDOFF_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_HANDOFF_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

struct Handoff {
  std::string join_string;
  // The agent's working folder.
  std::string folder;
  // "NAME=value", in addition to the host's own.
  std::vector<std::string> environment;
  // The agent's arguments, without the program's name.
  std::vector<std::string> arguments;
};

// The last line of a handoff.
inline constexpr absl::string_view kHandoffEnd = "go\n";
// Larger than any command line.
inline constexpr size_t kHandoffBytesMax = 8 << 20;

// After the handoff, each byte is a signal for the agent.
inline constexpr char kHandoffTerm = 'T';  // SIGTERM
inline constexpr char kHandoffUsr2 = 'U';  // SIGUSR2

std::string FormatHandoff(const Handoff& handoff);
// `text` includes its last line. INVALID_ARGUMENT: it is not a handoff.
absl::StatusOr<Handoff> ParseHandoff(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_HANDOFF_H_
