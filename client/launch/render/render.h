// Render: makes the run spec of a platform, as text, from the values of flags.
//
// The files of these platforms in specs/ are the output of Render without
// flags, so the texts have one source. YAML, shells and the platform's own
// expansion do not change the command's arguments before they reach the
// program.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_RENDER_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_RENDER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rollcall {

struct RenderOptions {
  // By flag (--job, --nodes, ...); a missing flag has the platform's default.
  // Numbers and times are already checked.
  std::map<std::string, std::string> flags;
  // The values of --host, each a line of a hostfile.
  std::vector<std::string> hosts;
  // Empty: the spec gets an example command.
  std::vector<std::string> command;
};

// The platforms that Render knows.
std::vector<std::string> RenderPlatforms();

// INVALID_ARGUMENT: there is no such platform, it does not use a flag, its
// grammar does not allow a name, or it cannot hold an argument; the message has
// the flag, what was expected and what was found.
absl::StatusOr<std::string> Render(const std::string& platform,
                                   const RenderOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_RENDER_H_
