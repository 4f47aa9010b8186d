// RunFolder: the agent's own folder (0700, or 0710 if its ranks run as another
// user) while it lives: its Unix socket, and
// one subfolder per generation with the files that ranks read.
//
// The folder is held open. What the agent makes and removes in it is reached
// through that descriptor and never through a link: if the path is given to
// another folder, for example after a program has cleaned /tmp, nothing there
// is touched.
//
// An agent that makes its folder also removes folders of the same user whose
// agents were killed, and ends what is left of their ranks: each living agent
// holds a lock on its folder. If ranks could not be ended, their folder stays,
// with what identifies them, so that the next agent tries again.
//
// The nonces of the agent's lives are recorded in the folder. They outlive the
// agent until the daemon knows that it has ended: the node's next agent uses
// them to prove that it has swept this agent's ranks. It moves them into its
// own folder, so that at most one folder per node is left. If no next agent
// comes, any agent of this user removes them after a day.
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
#include "daemon/base/fd.h"
#include "daemon/base/system_user.h"

namespace rollcall {

// A Unix socket address holds 108 bytes including the terminating zero.
inline constexpr size_t kSocketPathBytesMax = 107;

class RunFolder {
 public:
  // Makes `$XDG_RUNTIME_DIR/rollcall-<8 hex>` for the agent of this node in
  // this job. `runtime_dir`: if empty, missing or too long for a socket,
  // `/tmp/rollcall-<uid>-<8 hex>` is used; so it is if ranks run as `user`, who
  // may not enter it. That user's group can reach the files in the folder, but
  // not list them. Errors name the path and the system's error.
  // FAILED_PRECONDITION: that user can rename root's files in /tmp.
  //
  // Waits at most `patience` for processes of earlier agents of the same job
  // and node that do not die, and calls `waits` once with a text that names
  // them. UNAVAILABLE: they are still there; they hold resources that the next
  // ranks need, and may write files that those read.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Make(
      const std::string& runtime_dir, const std::string& job = "",
      const std::string& node = "",
      absl::Duration patience = absl::ZeroDuration(),
      const std::function<void(const std::string&)>& waits = nullptr,
      const SystemUser* user = nullptr);
  // Removes the folder and its contents, except lives that were not forgotten.
  ~RunFolder();

  const std::string& path() const { return path_; }
  // Always short enough for a Unix socket address.
  std::string socket() const;
  // As short. Another name than socket(): processes that have that one in
  // their environment are ended as this agent's ranks, and those that attach
  // here are not its own.
  std::string attach_socket() const;
  // Nonces of earlier lives of the same job and node whose rank processes are
  // all gone. Secret. The newest last, at most Limits::swept_max.
  const std::vector<std::string>& swept() const { return swept_; }
  // A text for each living agent of the same job and node that has ranks here,
  // for example one of an older run that cannot reach its daemon. It is not
  // touched.
  const std::vector<std::string>& living() const { return living_; }
  // Call it before the agent prepares for a world in this life, so that no
  // world has a member whose life is not recorded. Safe to repeat. Errors are
  // ignored: the next agent then proves less.
  void RecordIncarnation(const std::string& nonce);
  // Call it when the daemon knows that this agent has ended and what it has
  // swept: the next agent need not report either.
  void ForgetIncarnations();
  // Makes the folder for the files of one generation, which belongs to the
  // ranks' user. If the run folder itself is gone, it is made as at first. Safe
  // to repeat. FAILED_PRECONDITION: something else is at its path, or the
  // system's error.
  absl::Status Add(uint64_t generation);
  // Removes the files of one generation.
  void Remove(uint64_t generation);

 private:
  RunFolder(std::string path, Fd folder, std::string owner,
            const SystemUser* user);
  absl::Status EnsureInPlace();
  // Records nonces of lives; keeps the newest Limits::swept_max.
  void Record(const std::vector<std::string>& nonces);
  void WriteIncarnations();

  const std::string path_;
  // Open, and locked while the agent lives.
  Fd folder_;
  // The job and the node, as Record writes them.
  const std::string owner_;
  // As whom ranks run; nullopt: as this process's user.
  const std::optional<SystemUser> user_;
  std::vector<std::string> swept_;
  std::vector<std::string> living_;
  // What is recorded: swept_ and this agent's own lives. Secret.
  std::vector<std::string> lives_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_
