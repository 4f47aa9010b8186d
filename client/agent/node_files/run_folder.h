// RunFolder: the agent's own folder (0700) for the time of its life: its Unix
// socket, and below it one folder a generation with what the ranks read.
//
// Whoever makes one removes those of its own user whose agents are gone without
// a word, and ends what ranks of theirs are left: each living agent holds a
// lock on its folder. A folder whose ranks could not be ended stays, so that
// the next agent tries again; it then holds what they are found by.
//
// The nonces of the agent's lives are recorded in the folder. They outlive the
// agent until the daemon has heard of its end: the node's next agent proves
// with them that it has swept this one's ranks. It takes them over into its own
// folder, so that at most one folder a node is left. Where no next agent comes,
// any agent of this user removes them after a day.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/fd.h"

namespace rollcall {

// A Unix socket's address holds 108 bytes with its closing zero.
inline constexpr size_t kSocketPathBytesMax = 107;

class RunFolder {
 public:
  // Makes `$XDG_RUNTIME_DIR/rollcall-<8 hex>` (`runtime_dir`; empty, missing or
  // too long for a socket: `/tmp/rollcall-<uid>-<8 hex>`) for the agent of this
  // node in this job. Errors name the path and the system's reason.
  //
  // Waits at most `patience` for processes of earlier agents of the same job
  // and node that do not die, and calls `waits` once, with their numbers in
  // words. UNAVAILABLE: they are still there; they hold what the next ranks
  // need, and may write what those read.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Make(
      const std::string& runtime_dir, const std::string& job = "",
      const std::string& node = "",
      absl::Duration patience = absl::ZeroDuration(),
      const std::function<void(const std::string&)>& waits = nullptr);
  // Removes the folder and all in it, but for lives that were not forgotten.
  ~RunFolder();

  const std::string& path() const { return path_; }
  // Fits a Unix socket's address.
  std::string socket() const;
  // Nonces of the lives of earlier agents of the same job and node, which are
  // gone with all their ranks' processes. Secret. The newest last, at most
  // Limits::swept_max.
  const std::vector<std::string>& swept() const { return swept_; }
  // In words: each agent of the same job and node that lives and has ranks
  // here, as one of an older run that cannot reach its daemon. It is left
  // alone.
  const std::vector<std::string>& living() const { return living_; }
  // To be called before the agent prepares for a world in this life, so that no
  // world has a member whose life is not recorded. Safe to repeat. Errors are
  // passed over: the next agent says less.
  void RecordLife(const std::string& nonce);
  // The daemon knows that this agent has ended, and what it has swept: the next
  // one has nothing to say of either.
  void ForgetLives();
  // Removes what one generation left.
  void Remove(uint64_t generation);

 private:
  RunFolder(std::string path, Fd lock, std::string owner);
  // Records nonces of lives, and keeps the newest Limits::swept_max.
  void Record(const std::vector<std::string>& nonces);

  const std::string path_;
  const Fd lock_;
  // The job and the node, as Record writes them.
  const std::string owner_;
  std::vector<std::string> swept_;
  std::vector<std::string> living_;
  // What is recorded: swept_ and this agent's own. Secret.
  std::vector<std::string> lives_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_RUN_FOLDER_H_
