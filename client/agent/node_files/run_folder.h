// RunFolder: the agent's own folder (0700, or 0710 if its ranks run as another
// user) while the agent runs: its Unix socket, and one subfolder per generation
// with the files that ranks read.
//
// The folder is held open. The agent makes and removes everything in it through
// that descriptor and never through a link. So if another folder takes its
// path, for example after a program has cleaned /tmp, nothing there is touched.
//
// An agent that makes its folder also removes folders of the same user whose
// agents were killed, and ends the remaining processes of their ranks. It knows
// them because each running agent holds a lock on its folder. If ranks could
// not be ended, their folder stays, with the data that identifies them, so that
// the next agent tries again.
//
// The nonces of the agent's incarnations are recorded in the folder. They stay
// after the agent has ended, until the daemon knows that it has: the node's
// next agent uses them to prove that it has swept this agent's ranks. It moves
// them into its own folder, so that at most one folder per node is left. If no
// next agent comes, any agent of this user removes them after a day.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {

// A Unix socket address holds 108 bytes including the terminating zero.
inline constexpr size_t kSocketPathBytesMax = 107;

class RunFolder {
 public:
  // Makes `$XDG_RUNTIME_DIR/rollcall-<8 hex>` for the agent of this node in
  // this job. `runtime_dir`: the value of that variable.
  // `/tmp/rollcall-<uid>-<8 hex>` is used instead if it is empty, missing or
  // too long for a socket, or if ranks run as another user (`user`), who may
  // not be able to enter it. That user's group can reach the files in the
  // folder, but not list them. Errors name the path and the system's error.
  // FAILED_PRECONDITION: that user can rename root's files in /tmp.
  //
  // Waits at most `patience` for processes of earlier agents of the same job
  // and node that do not die, and calls `waits` once with a text that names
  // them. UNAVAILABLE: they are still there. They hold resources that the next
  // ranks need, and may write files that the next ranks read.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Make(
      const std::string& runtime_dir, const std::string& job = "",
      const std::string& node = "",
      absl::Duration patience = absl::ZeroDuration(),
      const std::function<void(const std::string&)>& waits = nullptr,
      const SystemUser* user = nullptr);
  // Removes the folder and its contents, except recorded nonces that were not
  // forgotten.
  ~RunFolder();

  const std::string& path() const { return path_; }
  // Always short enough for a Unix socket address.
  std::string socket() const;
  // As short as socket(), but with another name: processes with socket() in
  // their environment are ended as this agent's ranks, and a rank that attaches
  // is not the agent's own.
  std::string attach_socket() const;
  // The nonces of earlier incarnations of the same job and node whose rank
  // processes are all gone. Secret. The newest is the last; at most
  // Limits::swept_max.
  const std::vector<std::string>& swept() const { return swept_; }
  // A text for each running agent of the same job and node that has ranks here,
  // for example an agent of an older run that cannot reach its daemon. This
  // agent does not touch it.
  const std::vector<std::string>& living() const { return living_; }
  // Call it before the agent prepares for a world with this incarnation, so
  // that each world has only members whose incarnations are recorded. Safe to
  // repeat. Errors are ignored: the next agent can then prove less.
  void RecordIncarnation(const std::string& nonce);
  // Deletes the recorded incarnations. Call it when the daemon knows that this
  // agent has ended and what it has swept: then the next agent has none to
  // report.
  void ForgetIncarnations();
  // Makes the folder for the files of one generation, owned by the user of the
  // ranks. If the run folder itself was removed, it is made again. Safe to
  // repeat. FAILED_PRECONDITION: something else is at its path, or the system's
  // error.
  absl::Status Add(uint64_t generation);
  // Removes the files of one generation.
  void Remove(uint64_t generation);

 private:
  RunFolder(std::string path, Fd folder, std::string owner,
            const SystemUser* user);
  absl::Status EnsureInPlace();
  // Records nonces; keeps the newest Limits::swept_max.
  void Record(const std::vector<std::string>& nonces);
  void WriteIncarnations();

  const std::string path_;
  // The open folder, locked while the agent runs.
  Fd folder_;
  // The job and the node, as WriteIncarnations writes them.
  const std::string owner_;
  // The user as which ranks run; nullopt: this process's user.
  const std::optional<SystemUser> user_;
  std::vector<std::string> swept_;
  std::vector<std::string> living_;
  // The recorded nonces: swept_ and this agent's own. Secret.
  std::vector<std::string> lives_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_
