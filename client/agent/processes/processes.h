// Processes: the ranks of this node as operating-system processes.
//
// Starts them (each in a session and process group of its own, stdin from
// /dev/null), carries their output line by line, reaps them, stops them, and
// sees to it with its guard that none of them and none of their descendants
// outlives the agent. It knows nothing of worlds or of the wire.
//
// Thread rule: all functions from one thread; the callbacks come from threads
// of its own and must only post.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESSES_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESSES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent/core/agent.h"
#include "client/agent/processes/sweep.h"

namespace rollcall {

struct RankCommand {
  uint32_t local_rank = 0;
  uint32_t rank = 0;
  std::vector<std::string> argv;
  // The whole environment, "NAME=value"; nothing is inherited beside it.
  std::vector<std::string> environment;
  // TORCHELASTIC_ERROR_FILE of this rank, read back when it failed; may be
  // empty.
  std::string error_file;
  // An entry of its environment that no other rank's has, "NAME=value": by it
  // its descendants are found while others live. May be empty.
  std::string marker;
};

struct ProcessesOptions {
  // For the `[node/rank] ` prefix of each line.
  std::string node;
  // Folder for gen-<generation>/rank-<rank>.out and .err; empty: none.
  std::string log_dir;
  // Rank output goes to stderr (under --json) instead of stdout. A rank's own
  // stderr always goes to stderr.
  bool output_to_stderr = false;
  // Unique to this agent life and present in every rank's environment as
  // `marker` ("ROLLCALL_SOCKET=/path"): by it descendants are found.
  std::string marker;
  // The hosts file that this agent writes to, absolute: what it leaves there
  // when it is killed goes with its guard. Empty: none.
  std::string hosts_file;
  // The agent is the subreaper of its ranks (BecomeSubreaper).
  bool subreaper = false;
  // The binary whose hidden `guard` command watches over the ranks.
  std::string self = "/proc/self/exe";
};

// Makes the kernel give this process the orphans among its descendants, so that
// a sweep finds them by their parent. To be called before it has any child.
// False: a child of this process may be anybody's orphan and tells nothing,
// since the process is the first of its pid namespace (the command of a
// container, say), or had children before it became rollcall (`exec`).
bool BecomeSubreaper();

class Processes {
 public:
  struct Callbacks {
    std::function<void(RankEnded)> ended;
    // These have ended, nothing that they started is left, and their output is
    // written (a terminal that takes none is waited for two seconds).
    std::function<void(RanksGone)> gone;
  };

  Processes(ProcessesOptions options, Callbacks callbacks);
  // Kills what is left.
  ~Processes();

  // Starts ranks for a generation, beside those that live. A command that
  // cannot be executed ends as a rank does, with code 127 (not found) or 126
  // (not executable) and the reason as its stderr tail, as a shell has it. All
  // ranks start or none. RESOURCE_EXHAUSTED: no process could be made.
  // UNAVAILABLE: no guard could be started; retry later. FAILED_PRECONDITION:
  // an earlier life of a local rank is not gone yet. INVALID_ARGUMENT: a
  // command is empty.
  absl::Status Start(uint64_t generation,
                     const std::vector<RankCommand>& ranks);

  // SIGTERM to their process groups now, SIGKILL after `grace`, then the sweep
  // of what they left, then Callbacks::gone; others live on. A second call with
  // a shorter grace shortens it. Who does not live here is gone at once. Ranks
  // that end by themselves are swept when they are stopped, or when the last
  // has ended.
  void Stop(std::vector<RankLife> ranks, absl::Duration grace);

  // Sends a signal to the process groups of those whose leader lives.
  void Signal(std::vector<RankLife> ranks, int signal);

  // The session of a rank; one of number 0 where it does not live here.
  RankSession SessionOf(const RankLife& life);

  // As if the rank had written it to its stderr.
  void Say(RankLife life, std::string text);

  // A rank lives on under another number, for the prefix of its lines.
  void Rename(uint32_t local_rank, uint32_t rank);

 private:
  class Keeper;
  std::unique_ptr<Keeper> keeper_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESSES_H_
