// LaunchFolder: the folder (0700) of one job's launcher. It holds the daemon's
// journal, keys, tokens and log, and the address of the running job.
//
// Thread rule: one thread. Several processes: a lock on the folder lets one
// launcher own it at a time; reading a running job needs no lock.
#ifndef ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LAUNCH_FOLDER_H_
#define ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LAUNCH_FOLDER_H_

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

// The address of a running job, as in `daemon.json` (0600).
struct RunningJob {
  std::string job;
  // The daemon's address from this machine.
  std::string endpoint;
  std::string join_string;
  int daemon_pid = 0;
  // The user's own PKI, if the join string does not say how to verify the
  // daemon.
  Trust trust;
  // The state folder that this was read from.
  std::string folder;
};

class LaunchFolder {
 public:
  // Makes the folder if it is missing, and locks it. FAILED_PRECONDITION: other
  // users have access (MakePrivateFolder), the folder belongs to rollcalld, or
  // another launcher holds it; the message names the process and what to do.
  static absl::StatusOr<std::unique_ptr<LaunchFolder>> Open(
      const std::string& path);
  // Releases the lock.
  ~LaunchFolder();

  const std::string& path() const { return path_; }
  std::string daemon_log() const { return path_ + "/daemon.log"; }
  // Device and inode of the lock file; zeros: unknown.
  std::pair<uint64_t, uint64_t> lock_file() const;

  absl::Status WriteRunning(const RunningJob& running);

 private:
  LaunchFolder(std::string path, int lock_fd);
  const std::string path_;
  const int lock_fd_;
};

// The state folder of a job without --state; the errors are those of
// MakeDefaultState.
absl::StatusOr<DefaultState> DefaultLaunchState(const std::string& job);
// Folders in which a job's state may be without --state.
std::vector<std::string> LaunchFoldersOf(const std::string& job);

// NOT_FOUND: no job runs with this state, and no launcher has left one.
absl::StatusOr<RunningJob> ReadRunningJob(const std::string& folder);
// The running jobs whose state is below these folders, sorted by name.
std::vector<RunningJob> RunningJobs(const std::vector<std::string>& roots);

// Whether a process is a daemon that this binary started.
bool IsLivingDaemon(int pid);

// A message that the launcher of this state folder was stopped (Ctrl-Z) and how
// to continue it; empty: it is not stopped.
std::string StoppedLauncher(const std::string& folder);

// After a run: removes `daemon.json`, the launcher's record and the tokens;
// with `all`, the whole folder.
void ForgetRun(const std::string& folder, bool all);
// Like ForgetRun, but called by a daemon whose launcher has died. If another
// launcher holds the folder by now, only `daemon.json` is removed, which tells
// that launcher that the daemon ended in order.
void ForgetOrphanedRun(const std::string& folder, bool all);
// Whether `daemon.json` is there.
bool IsRunKnown(const std::string& folder);

// The launcher's record; see launch_record.h.
inline constexpr char kLaunchFile[] = "/launch.json";

// The file's last lines, for a message; empty: there are none.
std::string LastLines(const std::string& path, size_t lines);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LAUNCH_FOLDER_H_
