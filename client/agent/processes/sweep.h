// Sweep: ends every process that belongs to a node's ranks, daemonized ones
// too.
//
// A process belongs when it is in one of the ranks' sessions or cgroups, has a
// marker of theirs in its environment, was found by an earlier sweep or look,
// was reparented to the agent by the kernel (Kin::reparented), or descends from
// one that does. Nothing else is ever killed: each is proven to be the process
// that was found (its start time, behind a pidfd) right before the signal, so
// that a number that was given to another process in between is not hit.
//
// It does not reap, and does not ask politely: who may save first is decided by
// the caller.
//
// What escapes, where there is no cgroup: a process in a session of its own,
// without the marker, whose parent has ended, if no look (LookFor, every two
// seconds while ranks run) came while the parent lived, and
// - the agent is no subreaper (see BecomeSubreaper), or
// - other ranks of the node live on: nothing tells whose it was. It is ended
//   together with the last of them.
// If the agent is killed, its guard knows what the agent's latest look found
// and what still shows a sign; if the guard is killed too, the node's next
// agent knows the marker only. A process that another service started (cron,
// Docker, systemd) is no descendant, and is not looked for.
//
// Thread rule: any thread; no shared state. Used by the agent and, after the
// agent's death, by its guard. Reads /proc; where that is missing it finds
// none.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_SWEEP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_SWEEP_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

// A session by its leader's number, and when that leader started (ticks since
// boot): together they name one session for ever.
struct RankSession {
  pid_t id = 0;
  uint64_t start_ticks = 0;
};

struct FoundProcess {
  pid_t pid = 0;
  pid_t group = 0;
  uint64_t start_ticks = 0;
  pid_t session = 0;

  // The same process, and not one that has got its number since.
  bool Is(const FoundProcess& other) const {
    return pid == other.pid && start_ticks == other.start_ticks;
  }
};

// By what the ranks' processes are known.
struct Kin {
  // Exact environment entries, "NAME=value": any of them.
  std::vector<std::string> markers;
  std::vector<RankSession> sessions;
  // Folders of cgroup v2.
  std::vector<std::string> cgroups;
  // That an earlier sweep found and could not end, or an earlier look found.
  // Only number and start time count.
  std::vector<FoundProcess> processes;
  // The children of the calling process that are not in its own session: for an
  // agent that is the subreaper of its ranks. Each rank leads a session of its
  // own, and no process can enter another one's session, so a process in the
  // agent's session is no rank's. The agent's own children are all in its
  // session, except the guard, which must be spared.
  bool reparented = false;
  // Never touched. The calling process and process 1 never are either.
  std::vector<pid_t> spared;
};

// All living processes that belong, ended ones (zombies) left out.
std::vector<FoundProcess> FindKin(const Kin& kin);

// What one look at /proc found.
struct Look {
  // For each Kin, in their order, what FindKin finds by other signs than
  // markers and cgroups.
  std::vector<std::vector<FoundProcess>> found;
  // Children of the calling process that have ended and were not reaped yet,
  // without those in its own session.
  std::vector<pid_t> ended_children;
};

// Reads no environment, so that it never waits for another process's memory,
// and can be repeated while ranks run.
Look LookFor(const std::vector<Kin>& kins);

struct SweepResult {
  size_t ended = 0;
  // Still alive when patience ended (stuck in the kernel).
  std::vector<FoundProcess> left;
  // Ours by their signs, but of another user: they cannot be killed.
  std::vector<FoundProcess> denied;
};

// SIGKILLs all kin, waits for their end, and looks again until none is found or
// `patience` has passed. Safe to repeat.
SweepResult Sweep(const Kin& kin, absl::Duration patience);

// When process `pid` started, in ticks since boot; 0: there is no such process.
uint64_t StartTicks(pid_t pid);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_SWEEP_H_
