// Spawn: starts this same binary as a child that may outlive its parent.
//
// The child gets a session of its own (a terminal's Ctrl-C reaches only the
// launcher), default signal handlers and /dev/null as its stdin.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_SPAWN_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_SPAWN_H_

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

struct SpawnOptions {
  // The arguments after the program's name.
  std::vector<std::string> arguments;
  // "NAME=value".
  std::vector<std::string> environment;
  // The file to which stdout and stderr are appended (0600); empty: they are
  // inherited.
  std::string log_file;
  // Inherited under the same numbers. All other descriptors must be
  // close-on-exec.
  std::vector<int> inherited_fds;
};

// Gives a child a secret through an inherited socket, because other processes
// of this user can read its argv and, for a moment, its environment. (They
// could also open a pipe through /proc.) Returns the child's end, which must be
// closed after the child was started. UNAVAILABLE: no socket could be made, or
// the secret is too large for it.
absl::StatusOr<Fd> PassSecret(const std::string& secret, SpawnOptions& options);
// In the child: reads the secret and closes `secret_fd`; -1: returns an empty
// text. UNAVAILABLE: it cannot be read.
absl::StatusOr<std::string> TakePassedSecret(int secret_fd);

// StartGate: holds children back until their ids are recorded. If the parent
// dies first, they end without doing anything.
class StartGate {
 public:
  // Adds the child's side of the gate. UNAVAILABLE: no pipe could be made.
  absl::Status HoldBack(SpawnOptions& options);
  // Releases all children that are held back.
  void Open();

 private:
  Fd read_;
  Fd write_;
  size_t held_ = 0;
};

// In the child: waits for Open; returns whether to continue. -1: there is no
// gate.
bool AwaitStart(int start_fd);

// Starts a program, found in PATH unless its name has a '/', in a session of
// its own and with default signal handlers. Returns 0, or an errno.
int SpawnInSession(const std::string& program,
                   const std::vector<std::string>& argv,
                   const std::vector<std::string>& environment,
                   const posix_spawn_file_actions_t& files, pid_t& pid);

// Returns the child's pid; the caller must reap it. UNAVAILABLE: no process
// could be made; with the system's error.
absl::StatusOr<pid_t> SpawnSelf(const SpawnOptions& options);

// A waitpid status as text: `exited with code 3`, `was killed by signal 9`.
std::string DescribeExit(int wait_status);
// The exit code as a shell reports it: its own, or 128 + signal.
int ExitCodeOf(int wait_status);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_SPAWN_H_
