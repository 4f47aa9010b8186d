// RemoteAgent: starts one agent on one host by ssh, passes its output and
// signals on, and exits as the agent does (`rollcall remote`, hidden; a child
// of the launcher).
//
// It is a separate process, so that the launcher treats an agent on a host like
// a local agent: the process is recorded, outlives the launcher, and is adopted
// by the next launcher.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_REMOTE_AGENT_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_REMOTE_AGENT_H_

#include <string>

#include "client/launch/spawn/handoff.h"

namespace rollcall {

struct RemoteAgentOptions {
  // The node name, for messages.
  std::string name;
  // The ssh destination.
  std::string target;
  // The ssh command and its options, separated by spaces.
  std::string ssh = "ssh";
  // Copies this binary to the host first, unless the host has it.
  bool push = false;
  // The launcher's live line on this terminal (live_bell.h); -1: none.
  int live_bell = -1;
  Handoff handoff;
};

// Returns the agent's exit code; 69 and a message if the agent could not be
// started; 128 + 15 if SIGTERM came before the start. Blocks; single-threaded.
int RunRemoteAgent(RemoteAgentOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_REMOTE_AGENT_H_
