// LaunchFolder: what a launcher keeps on disk for one job (0700): the daemon's
// journal, keys, tokens and log, and where the running job is found.
//
// Thread rule: one thread. Several processes: a lock on the folder lets one
// launcher at a time own it; reading a running job needs no lock.
#ifndef ROLLCALL_CLIENT_LAUNCH_LAUNCH_FOLDER_H_
#define ROLLCALL_CLIENT_LAUNCH_LAUNCH_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/journal/default_state.h"
#include "daemon/security/trust.h"

namespace rollcall {

// Where a job runs, as `daemon.json` has it (0600).
struct RunningJob {
  std::string job;
  // Where this machine reaches the daemon.
  std::string endpoint;
  std::string join_string;
  int daemon_pid = 0;
  // The user's own PKI, where the join string does not say how the daemon is
  // known.
  Trust trust;
  // The state folder that this was read from.
  std::string folder;
};

class LaunchFolder {
 public:
  // Makes the folder where it is missing, and locks it. FAILED_PRECONDITION: it
  // is not ours alone (MakePrivateFolder), belongs to rollcalld, or another
  // launcher has it; says which process, and what to do.
  static absl::StatusOr<std::unique_ptr<LaunchFolder>> Open(
      const std::string& path);
  // Gives the lock back.
  ~LaunchFolder();

  const std::string& path() const { return path_; }
  std::string daemon_log() const { return path_ + "/daemon.log"; }
  // Device and inode of the lock file; zeros: not known.
  std::pair<uint64_t, uint64_t> lock_file() const;

  absl::Status WriteRunning(const RunningJob& running);

 private:
  LaunchFolder(std::string path, int lock_fd);
  const std::string path_;
  const int lock_fd_;
};

// Where a job's state goes without --state; errors as MakeDefaultState's.
absl::StatusOr<DefaultState> DefaultLaunchState(const std::string& job);
// Where a job's state may be without --state.
std::vector<std::string> LaunchFoldersOf(const std::string& job);

// NOT_FOUND: no job runs with this state, and no launcher has left one.
absl::StatusOr<RunningJob> ReadRunningJob(const std::string& folder);
// All that run with their state below these folders, by name.
std::vector<RunningJob> RunningJobs(const std::vector<std::string>& roots);

// Whether a process is a daemon that this binary started.
bool IsLivingDaemon(int pid);

// That the launcher of this state folder was stopped (Ctrl-Z), and how to
// continue it; empty: it was not.
std::string StoppedLauncher(const std::string& folder);

// After a run: removes where it was found, what its launcher wrote down and its
// tokens, or with `all` the whole folder.
void ForgetRun(const std::string& folder, bool all);
// The same by a daemon whose launcher has died. Where another launcher has the
// folder by now, the rest is left to it: a missing `daemon.json` tells it that
// the daemon came to an orderly end.
void ForgetOrphanedRun(const std::string& folder, bool all);
// Whether `daemon.json` is there.
bool IsRunKnown(const std::string& folder);

// What a launcher writes down of itself; see launch_record.h.
inline constexpr char kLaunchFile[] = "/launch.json";

// 1 MiB at most. Errors name the path and the system's reason.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);
absl::StatusOr<std::string> ReadUpTo(const std::string& path, size_t bytes_max);
// Its last lines, for a message; empty where there is nothing.
std::string LastLines(const std::string& path, size_t lines);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LAUNCH_FOLDER_H_
