// The guard: a process that ends the ranks when the agent has died, and then
// removes the agent's names from the hosts file.
//
// The agent holds one end of a socket, and the guard has the other end as its
// stdin; no other process has either. When the agent ends in any way, the guard
// reads an end of file, sweeps (sweep.h), records the processes that it could
// not end (left_processes.h) and exits. It knows the ranks from lines that the
// agent wrote before the ranks could run:
//
//   marker NAME=value    the environment entry that all ranks have
//   session SID START    a rank's session and its leader's start time
//   cgroup FOLDER        a cgroup of a rank
//   process PID START    a rank's process that only the agent could find, and
//                        its start time
//   forget SID|FOLDER    a session or cgroup that has gone
//   ended PID START      a process that has gone
//   owner FIELDS         the agent, as in an owner line of a hosts file
//   hosts PATH           the hosts file that the agent writes
//   done                 the agent ends by itself: the guard does nothing
//
// The marker is sent this way and never through argv, because it contains the
// path of a socket that only the ranks should know.
//
// Thread rule: Guard: one thread at a time. GuardMain: the whole process.
//
// Invariants:
//   1. A rank runs its command only after its session was written to the
//      guard's socket.
//   2. The guard's environment has no ROLLCALL_* entry, so no sweep takes the
//      guard for a rank's child.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_GUARD_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_GUARD_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/agent/hosts/hosts_text.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

// The entries that an agent may leave in a hosts file.
struct HostsCharge {
  // An absolute path; empty: the agent writes no hosts file.
  std::string path;
  HostsOwner owner;
};

// The agent's side.
class Guard {
 public:
  // `self`: the binary whose first argument `guard` calls GuardMain.
  Guard(std::string self, std::string marker, HostsCharge hosts = {});
  // Sends `done` and waits for the guard's end.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Starts the guard, or a new one in place of the current one, and sends it
  // everything known so far. UNAVAILABLE: no process could be made; retry
  // later.
  absl::Status Start();

  // Sends the session to the guard, and later to each guard that replaces it. A
  // guard that does not read is killed. Once the guard has ended, `watched` is
  // readable.
  void AddSession(const RankSession& session);
  void AddCgroup(const std::string& folder);
  void Forget(const ProcessMatcher& gone);
  // Replaces the processes that were set before; sends only the difference.
  // Keeps at most 1024.
  void SetProcesses(std::vector<FoundProcess> processes);

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // Becomes readable (end of file) when the guard has died; -1: no guard runs.
  int watched() const { return line_.get(); }
  // Kills the guard if it still runs, and reaps it.
  void End();

 private:
  void Tell(const std::string& text);

  const std::string self_;
  const HostsCharge hosts_;
  ProcessMatcher matcher_;
  pid_t pid_ = 0;
  Fd line_;
};

// The orders that the guard has read so far. Pure.
class GuardOrders {
 public:
  // One line without its newline; unknown lines are ignored.
  void Read(absl::string_view line);

  const ProcessMatcher& matcher() const { return matcher_; }
  const HostsCharge& hosts() const { return hosts_; }
  bool done() const { return done_; }

 private:
  ProcessMatcher matcher_;
  HostsCharge hosts_;
  bool done_ = false;
};

// The hidden command `rollcall guard`; call it first in main, before flags are
// parsed. Reads its stdin to the end; returns the exit code.
int GuardMain();

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_GUARD_H_
