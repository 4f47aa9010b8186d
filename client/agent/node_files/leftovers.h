// Leftovers: run folders of agents that ended without removing them, and the
// processes of these agents' ranks.
//
// The next agent of the same user ends those processes and removes the folders.
// It keeps the incarnations of its own node that it has swept, to report them
// to the daemon.
//
// Thread rule: any thread. One agent of a user sweeps at a time (AwaitTurn).
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_LEFTOVERS_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_LEFTOVERS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

// Names in a run folder: the agent's socket, and the record of its
// incarnations.
inline constexpr char kSocketName[] = "/agent.sock";
inline constexpr char kIncarnationsName[] = "/lives";

struct Leftovers {
  std::vector<std::string> swept;
  // The folders whose incarnations are in `swept`.
  std::vector<std::string> folders;
  // Processes of this job and node that still exist.
  SweepResult alive;
  // A text for each agent of this job and node that still has ranks.
  std::vector<std::string> living;
};

// Opens a folder of this process's user; never follows a link. On failure errno
// is set.
Fd OpenOwn(const std::string& folder);
// Removes everything except the records for the node's next agent.
void RemoveAllButRecords(int folder);
// Removes a folder of this process's user and everything in it.
void RemoveFolder(const std::string& path);

// Waits a few seconds for the lock that gives the turn to sweep `parent`. Not
// open: there was no lock; the caller sweeps all the same.
Fd AwaitTurn(const std::string& parent, const std::string& prefix);
// Sweeps the folders in `parent` whose names begin with `prefix`, and adds to
// `found` what it finds. `owner`: job and node of this agent. `patience`: for
// processes that do not die at once. `own_alone`: only that owner's folders are
// swept. Errors do not fail the agent. Only processes that are left of its own
// node do (Leftovers::alive).
void SweepLeftovers(const std::string& parent, const std::string& prefix,
                    const std::string& owner, absl::Duration patience,
                    bool own_alone, Leftovers& found);
// A text for the user that names the processes that are left.
std::string LeftText(const SweepResult& alive);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_LEFTOVERS_H_
