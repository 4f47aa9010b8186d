// RunFolder: the agent's own folder (0700) for the time of its life: its Unix
// socket, and below it one folder a generation with what the ranks read.
//
// Whoever makes one removes those of its own user whose agents are gone without
// a word, and ends what ranks of theirs are left: each living agent holds a
// lock on its folder.
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_AGENT_RUN_FOLDER_H_
#define ROLLCALL_CLIENT_AGENT_RUN_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/agent/fd.h"

namespace rollcall {

// A Unix socket's address holds 108 bytes with its closing zero.
inline constexpr size_t kSocketPathBytesMax = 107;

class RunFolder {
 public:
  // Makes `$XDG_RUNTIME_DIR/rollcall-<8 hex>` (`runtime_dir`; empty, missing or
  // too long for a socket: `/tmp/rollcall-<uid>-<8 hex>`). Errors name the path
  // and the system's reason.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Make(
      const std::string& runtime_dir);
  // Removes the folder and all in it.
  ~RunFolder();

  const std::string& path() const { return path_; }
  // Fits a Unix socket's address.
  std::string socket() const;
  // Removes what one generation left.
  void Remove(uint64_t generation);

 private:
  RunFolder(std::string path, Fd lock);
  const std::string path_;
  const Fd lock_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RUN_FOLDER_H_
