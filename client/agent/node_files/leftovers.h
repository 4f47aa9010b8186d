// Leftovers: run folders of agents that have ended without removing theirs, and
// the processes of their ranks.
//
// The next agent of the same user ends those processes and removes the folders.
// What it knows of its own node's earlier lives it keeps for the daemon.
//
// Thread rule: any thread; one agent of a user sweeps at a time (AwaitTurn).
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_LEFTOVERS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_LEFTOVERS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/processes/sweep.h"
#include "daemon/base/fd.h"

namespace rollcall {

// In a run folder: the agent's socket, and the lives of its node.
inline constexpr char kSocketName[] = "/agent.sock";
inline constexpr char kIncarnationsName[] = "/lives";

struct Leftovers {
  std::vector<std::string> swept;
  // The folders whose lives are in `swept`.
  std::vector<std::string> folders;
  // Processes of the same owner that still exist.
  SweepResult alive;
  // Agents of the same owner that have ranks.
  std::vector<std::string> living;
};

// Opens a folder of this process's user; never a link. On failure, errno says
// why.
Fd OpenOwn(const std::string& folder);
// Removes everything except the records for the node's next agent.
void RemoveAllButRecords(int folder);
// Removes a folder of this process's user with all that is in it.
void RemoveFolder(const std::string& path);

// The turn to sweep `parent`; not open: it is not had, and the sweep goes on
// without it. Waits for a few seconds at most.
Fd AwaitTurn(const std::string& parent, const std::string& prefix);
// Adds to `found` what is left in `parent`, in folders whose names begin with
// `prefix`. `owner`: job and node of this agent. `patience`: for processes that
// do not die at once. `own_alone`: only that owner's folders are swept. No
// error fails the agent, except processes left of its own node
// (Leftovers::alive).
void SweepLeftovers(const std::string& parent, const std::string& prefix,
                    const std::string& owner, absl::Duration patience,
                    bool own_alone, Leftovers& found);
// Which processes are left, for the user.
std::string LeftText(const SweepResult& alive);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_LEFTOVERS_H_
