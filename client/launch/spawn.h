// Spawn: starts this same binary again, as a child that outlives its parent if
// need be.
//
// The child gets a session of its own (a terminal's Ctrl-C reaches the launcher
// alone), default signal handlers and /dev/null as its stdin.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/fd.h"

namespace rollcall {

struct SpawnOptions {
  // What follows the program's name.
  std::vector<std::string> arguments;
  // "NAME=value".
  std::vector<std::string> environment;
  // File that stdout and stderr are appended to (0600); empty: ours.
  std::string log_file;
  // Passed on under the same numbers. All others must be close-on-exec.
  std::vector<int> inherited_fds;
};

// Gives a child a secret through a socket that it inherits, since other
// processes of this user can read its argv and, for a moment, its environment.
// (A pipe they could open by its path in /proc.) Returns the child's end, to be
// closed once it was started. UNAVAILABLE: no socket could be made, or the
// secret is too large for one.
absl::StatusOr<Fd> PassSecret(const std::string& secret, SpawnOptions& options);
// In the child: what it was given, and closes `secret_fd`; -1: an empty text.
// UNAVAILABLE: it cannot be read.
absl::StatusOr<std::string> TakePassedSecret(int secret_fd);

// StartGate: holds children back until it is written down who they are. Those
// whose parent dies before end without having done anything.
class StartGate {
 public:
  // What a child needs to wait there. UNAVAILABLE: no pipe could be made.
  absl::Status HoldBack(SpawnOptions& options);
  // Lets all go that were held back.
  void Open();

 private:
  Fd read_;
  Fd write_;
  size_t held_ = 0;
};

// In the child: whether to go on. -1: nothing holds it back.
bool AwaitStart(int start_fd);

// The child's pid, to be reaped by the caller. UNAVAILABLE: no process could be
// made, with the system's reason.
absl::StatusOr<pid_t> SpawnSelf(const SpawnOptions& options);

// How a waitpid status reads: `exited with code 3`, `was killed by signal 9`.
std::string DescribeExit(int wait_status);
// The code that a shell would give it: its own, or 128 + signal.
int ExitCodeOf(int wait_status);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_H_
