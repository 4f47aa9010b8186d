// Sweep: ends every process that belongs to a node's ranks, including processes
// that became daemons.
//
// A process belongs to the ranks if it is in one of their sessions or cgroups,
// has one of their markers in its environment, was found by an earlier sweep or
// look, was reparented to the agent by the kernel (ProcessMatcher::reparented),
// or descends from such a process. No other process is killed: right before the
// signal each process is verified by its start time while a pidfd is open, so
// that a reused pid is not killed.
//
// Sweep does not reap, and sends no SIGTERM: the caller decides which processes
// get time to save first.
//
// Without a cgroup, a process escapes if all of this holds: it is in its own
// session, does not have the marker, its parent has ended, no look (LookFor,
// every two seconds while ranks run) happened while the parent ran, and the
// agent is not a subreaper (see BecomeSubreaper). If the agent is a subreaper
// but other ranks of the node still run, nothing shows which rank the process
// belonged to; it is ended together with the last rank. If the agent is killed,
// its guard knows the processes of the agent's latest look and those with
// another sign. If the guard is killed too, the node's next agent knows only
// the marker. A process that another service started (cron, Docker, systemd) is
// no descendant and is not searched.
//
// Thread rule: any thread; no shared state. Used by the agent and, after the
// agent's death, by its guard. Reads /proc; without /proc it finds nothing. If
// the caller is root without CAP_SYS_PTRACE (most containers), it reads the
// environment of another user's process as that user.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_SWEEP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_SWEEP_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

// A session, identified by its leader's pid and the leader's start time (ticks
// since boot); together they are unique.
struct RankSession {
  pid_t id = 0;
  uint64_t start_ticks = 0;
};

struct FoundProcess {
  pid_t pid = 0;
  pid_t group = 0;
  uint64_t start_ticks = 0;
  pid_t session = 0;

  // Whether it is the same process, and not one that got its pid later.
  bool Is(const FoundProcess& other) const {
    return pid == other.pid && start_ticks == other.start_ticks;
  }
};

// The signs that identify the ranks' processes.
struct ProcessMatcher {
  // Exact environment entries, "NAME=value"; one is enough.
  std::vector<std::string> markers;
  std::vector<RankSession> sessions;
  // Folders of cgroup v2.
  std::vector<std::string> cgroups;
  // Processes that an earlier sweep could not end, or that an earlier look
  // found. Only their pid and start time are used.
  std::vector<FoundProcess> processes;
  // Includes the children of the calling process that are not in its own
  // session. For an agent that is the subreaper of its ranks: each rank leads
  // its own session, and no process can join another session, so a process in
  // the agent's session belongs to no rank. The agent's own children are all in
  // its session, except the guard, which must be in `spared`.
  bool reparented = false;
  // Never killed; nor are the calling process and process 1.
  std::vector<pid_t> spared;
};

// Returns all running processes that belong to the ranks, without zombies.
std::vector<FoundProcess> FindMatching(const ProcessMatcher& matcher);

// The result of one look at /proc.
struct Look {
  // For each ProcessMatcher, in order: what FindMatching would find, without
  // the use of markers and cgroups.
  std::vector<std::vector<FoundProcess>> found;
  // Children of the calling process that have ended and are not reaped, without
  // those in its own session.
  std::vector<pid_t> ended_children;
};

// Reads no environment, so it never waits for another process's memory and can
// be repeated while ranks run.
Look LookFor(const std::vector<ProcessMatcher>& matchers);

struct SweepResult {
  size_t ended = 0;
  // Still running when `patience` ended (stuck in the kernel).
  std::vector<FoundProcess> left;
  // Belong to the ranks, but run as another user: they cannot be killed.
  std::vector<FoundProcess> denied;
};

// Sends SIGKILL to all matching processes, waits for their end, and searches
// again until none is found or `patience` has passed since the first kill. A
// search takes some milliseconds, and about a second more at most if a process
// that may have a marker is at its beginning or end, where it has no
// environment. Safe to repeat.
SweepResult Sweep(const ProcessMatcher& matcher, absl::Duration patience);

// The start time of process `pid`, in ticks since boot; 0: no such process.
uint64_t StartTicks(pid_t pid);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_PROCESS_TREE_SWEEP_H_
