// RemoteAgent: starts one agent on one host by ssh, passes its output and
// signals on, and ends as it ends (`rollcall remote`, hidden; a child of the
// launcher).
//
// A process of its own, so that an agent on a host is to the launcher like a
// local one: it is recorded, outlives the launcher, and is adopted by the next.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_REMOTE_AGENT_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_REMOTE_AGENT_H_

#include <string>

#include "client/launch/spawn/handoff.h"

namespace rollcall {

struct RemoteAgentOptions {
  // Its node's name, for messages.
  std::string name;
  // As ssh takes it.
  std::string target;
  // The ssh command and its options, separated by spaces.
  std::string ssh = "ssh";
  // Copies this binary to the host first, unless it is there.
  bool push = false;
  // The launcher's live line on this terminal (live_bell.h); -1: none.
  int live_bell = -1;
  Handoff handoff;
};

// Returns the agent's exit code; 69 and a message if it could not be started;
// 128 + 15 if SIGTERM came before it was. Blocks; single-threaded.
int RunRemoteAgent(RemoteAgentOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_REMOTE_AGENT_H_
