// Render: the run spec of a platform as text, from the values of flags.
//
// The files in specs/ of these platforms are what it makes from its defaults,
// so that there is one source of them. A word of the command reaches the
// program as it is, through YAML, shells and what the platform expands.
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
  // By flag (--job, --nodes, ...); what is left out is as the platform has it.
  // Numbers and times were checked.
  std::map<std::string, std::string> flags;
  // Of --host, lines of a hostfile.
  std::vector<std::string> hosts;
  // Empty: an example.
  std::vector<std::string> command;
};

// The names that Render takes.
std::vector<std::string> RenderPlatforms();

// INVALID_ARGUMENT: no such platform, a flag that it does not use, a name that
// its grammar does not allow, a word that it cannot hold; the message has the
// flag, what was expected and what was found.
absl::StatusOr<std::string> Render(const std::string& platform,
                                   const RenderOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_RENDER_H_
