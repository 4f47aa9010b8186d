// Processes: the ranks of this node as operating-system processes.
//
// It starts them (each in its own session and process group, with stdin from
// /dev/null), passes their output on line by line, reaps and stops them, and
// ensures with its guard that no rank and no descendant of a rank outlives the
// agent. It knows nothing of worlds or of the wire protocol.
//
// Thread rule: call all functions from one thread. The callbacks are called
// from internal threads and must only post.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESSES_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESSES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {

struct RankCommand {
  uint32_t local_rank = 0;
  uint32_t rank = 0;
  // For a command that is no rank: its name, instead of the rank in prefixes
  // and messages. Its output goes into the folder of this name, into files that
  // are named after the node. Empty: a rank.
  std::string label;
  std::vector<std::string> argv;
  // The whole environment, "NAME=value"; nothing else is inherited.
  std::vector<std::string> environment;
  // TORCHELASTIC_ERROR_FILE of this rank, read after a failure; may be empty.
  std::string error_file;
  // An environment entry that no other rank has, "NAME=value". It identifies
  // the rank's descendants while other ranks run. May be empty.
  std::string marker;
};

struct ProcessesOptions {
  // The node name in the prefix `[node/rank] ` of each line.
  std::string node;
  // Folder for gen-<generation>/rank-<rank>.out and .err; empty: none.
  std::string log_dir;
  // Rank output goes to stderr (with --json) instead of stdout. A rank's own
  // stderr always goes to stderr.
  bool output_to_stderr = false;
  // The launcher's live line on this terminal (live_bell.h); -1: none.
  int live_bell = -1;
  // An environment entry ("ROLLCALL_SOCKET=/path") of every rank that this
  // agent starts, and of no other process. It identifies descendants.
  std::string marker;
  // The absolute path of the hosts file that this agent writes. If the agent is
  // killed, the guard removes its entries. Empty: none.
  std::string hosts_file;
  // The user as which ranks run; nullopt: this process's user.
  std::optional<SystemUser> user;
  // The agent is the subreaper of its ranks (BecomeSubreaper).
  bool subreaper = false;
  // The binary that the guard runs, with the hidden command `guard`.
  std::string self = "/proc/self/exe";
};

// Makes this process the parent of orphans among its descendants, so that a
// sweep finds them by their parent. Call it before this process has any child.
// Returns false if this process could also have children that are no
// descendants of ranks: it is the first process of its pid namespace (the
// command of a container, for example), or had children before it became
// rollcall (`exec`).
bool BecomeSubreaper();

class Processes {
 public:
  struct Callbacks {
    std::function<void(RankEnded)> ended;
    // These ranks have ended, none of their descendants is left (except
    // processes of another user that cannot be killed), and their output is
    // written (or a blocked terminal has not taken it for two seconds).
    std::function<void(RanksGone)> gone;
  };

  Processes(ProcessesOptions options, Callbacks callbacks);
  // Kills the remaining processes.
  ~Processes();

  // Starts ranks for a generation, in addition to those that run: all or none.
  // A command that cannot be executed ends like a rank with code 127 (not
  // found) or 126 (not executable), as in a shell, with the reason as its
  // stderr tail. RESOURCE_EXHAUSTED: no process could be made. UNAVAILABLE: no
  // guard could be started; retry later. FAILED_PRECONDITION: an earlier
  // process of a local rank has not gone yet. INVALID_ARGUMENT: a command is
  // empty.
  absl::Status Start(uint64_t generation,
                     const std::vector<RankCommand>& ranks);

  // Sends SIGTERM to the ranks' process groups now and SIGKILL after `grace`,
  // sweeps their descendants, then calls Callbacks::gone. Other ranks keep
  // running. A second call with a shorter grace shortens it. Ranks that do not
  // exist here are reported as gone at once. Ranks that end by themselves are
  // swept when they are stopped, or when the last rank has ended.
  void Stop(std::vector<RankIncarnation> ranks, absl::Duration grace);

  // Sends a signal to the process groups of those ranks that have not ended.
  void Signal(std::vector<RankIncarnation> ranks, int signal);

  // Returns the session of a rank; id 0 if the rank does not exist here.
  RankSession SessionOf(const RankIncarnation& incarnation);

  // Adds a text as if the rank had written it to its stderr.
  void Say(RankIncarnation incarnation, std::string text);

  // A rank keeps running with another rank number, which is used in the prefix
  // of its lines.
  void Rename(uint32_t local_rank, uint32_t rank);

 private:
  class Keeper;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESSES_H_
