// Sweep: ends every process that belongs to a node's ranks, however far it has
// wandered.
//
// A process belongs when it is in one of the ranks' sessions or cgroups, has a
// marker of theirs in its environment, was found by an earlier sweep, or
// descends from one that does. Nothing else is ever killed: each is proven to
// be the process that was found (its start time, behind a pidfd) right before
// the signal, so that a number that was given to another process in between is
// not hit.
//
// It does not reap, and does not ask politely: who may save first is decided by
// the caller. A process that hides from all of this (another session, an
// emptied environment, a dead parent, no cgroup) is not found.
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
};

// By what the ranks' processes are known.
struct Kin {
  // Exact environment entries, "NAME=value": any of them.
  std::vector<std::string> markers;
  std::vector<RankSession> sessions;
  // Folders of cgroup v2.
  std::vector<std::string> cgroups;
  // That an earlier sweep found and could not end. `group` does not count.
  std::vector<FoundProcess> processes;
  // Never touched. The calling process and process 1 never are either.
  std::vector<pid_t> spared;
};

// All living processes that belong, ended ones (zombies) left out.
std::vector<FoundProcess> FindKin(const Kin& kin);

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
