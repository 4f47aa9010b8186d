// HostedAgent: starts an agent on a host, at the far end of ssh, and passes
// signals on to it (`rollcall hosted`, hidden).
//
// A broken connection does not end the agent, because the agent belongs to its
// job's daemon. Only an agent that was told to end (SIGTERM) is killed when the
// connection closes after that, because no other process could kill it.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_HOSTED_AGENT_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_HOSTED_AGENT_H_

#include <string>

namespace rollcall {

// Reads a handoff from stdin, starts the agent and waits for its end. Returns
// the agent's exit code; 69 and a message if it cannot be started, or if the
// launcher's version differs from this binary's. Blocks; single-threaded.
int RunHostedAgent(const std::string& launcher_version);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_HOSTED_AGENT_H_
