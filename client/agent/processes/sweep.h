// Sweep: ends every process that belongs to a node's ranks, including
// daemonized ones.
//
// A process belongs to the ranks if it is in one of their sessions or cgroups,
// has one of their markers in its environment, was found by an earlier sweep or
// look, was reparented to the agent by the kernel (ProcessMatcher::reparented),
// or descends from such a process. Nothing else is killed: right before the
// signal each process is verified by its start time behind a pidfd, so that a
// reused pid is not hit.
//
// It does not reap, and sends no SIGTERM: the caller decides who gets time to
// save first.
//
// Without a cgroup, a process escapes if it is in a session of its own, without
// the marker, its parent has ended, no look (LookFor, every two seconds while
// ranks run) came while the parent lived, and the agent is no subreaper (see
// BecomeSubreaper). If the agent is a subreaper but other ranks of the node
// live on, nothing shows whose process it was: it is ended together with the
// last of them.
// If the agent is killed, its guard knows the processes of the agent's latest
// look and those that still show a sign. If the guard is killed too, the node's
// next agent knows only the marker. A process that another service started
// (cron, Docker, systemd) is no descendant and is not searched.
//
// Thread rule: any thread; no shared state. Used by the agent and, after its
// death, by its guard. Reads /proc; without /proc it finds nothing. If it is
// root without CAP_SYS_PTRACE (most containers), it reads the environment of
// another user's process as that user.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_SWEEP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_SWEEP_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

// A session by its leader's pid and the leader's start time (ticks since boot);
// together they are unique.
struct RankSession {
  pid_t id = 0;
  uint64_t start_ticks = 0;
};

struct FoundProcess {
  pid_t pid = 0;
  pid_t group = 0;
  uint64_t start_ticks = 0;
  pid_t session = 0;

  // The same process, not one that got its pid later.
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
  // found. Only pid and start time are used.
  std::vector<FoundProcess> processes;
  // Includes the children of the calling process that are not in its own
  // session; for an agent that is the subreaper of its ranks. Each rank leads
  // its own session, and no process can join another session, so a process in
  // the agent's session belongs to no rank. The agent's own children are all in
  // its session, except the guard, which must be spared.
  bool reparented = false;
  // Never touched; nor are the calling process and process 1.
  std::vector<pid_t> spared;
};

// All living processes that belong; zombies are left out.
std::vector<FoundProcess> FindMatching(const ProcessMatcher& matcher);

// The result of one look at /proc.
struct Look {
  // For each ProcessMatcher, in order, what FindMatching finds by signs other
  // than markers and cgroups.
  std::vector<std::vector<FoundProcess>> found;
  // Ended and unreaped children of the calling process, without those in its
  // own session.
  std::vector<pid_t> ended_children;
};

// Reads no environment, so it never waits for another process's memory and can
// be repeated while ranks run.
Look LookFor(const std::vector<ProcessMatcher>& matchers);

struct SweepResult {
  size_t ended = 0;
  // Still alive when `patience` ended (stuck in the kernel).
  std::vector<FoundProcess> left;
  // Identified as ours, but owned by another user: they cannot be killed.
  std::vector<FoundProcess> denied;
};

// Sends SIGKILL to all matching processes, waits for their end, and looks again
// until none is found or `patience` has passed. Safe to repeat.
SweepResult Sweep(const ProcessMatcher& matcher, absl::Duration patience);

// The start time of process `pid`, in ticks since boot; 0: no such process.
uint64_t StartTicks(pid_t pid);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_SWEEP_H_
