// NcclMint: the child process whose NCCL ids a generation uses.
//
// Starts `mint-nccl-id`, reads its answer, and keeps it running while the ids
// are in use, because it listens (as the root of each id) until all ranks have
// checked in. The child's stdin is a pipe of which only this process has the
// other end, so the child always ends with this process.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_CLIENT_AGENT_NCCL_NCCL_MINT_H_
#define ROLLCALL_CLIENT_AGENT_NCCL_NCCL_MINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/agent/nccl/nccl.h"
#include "daemon/base/processes/child_process.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {

class NcclMint {
 public:
  struct Options {
    // The rollcall binary.
    std::string self = "/proc/self/exe";
    std::string library;
    // The user as which the child runs; nullopt: this process's user.
    std::optional<SystemUser> user;
    // The child's whole environment. NCCL_COMM_ID and LD_PRELOAD are removed
    // from it.
    std::vector<std::string> environment;
    uint32_t count = 1;
  };

  // Starts the child without waiting for it. RESOURCE_EXHAUSTED: no process or
  // pipe could be made. FAILED_PRECONDITION: `self` cannot be executed.
  static absl::StatusOr<std::unique_ptr<NcclMint>> Start(
      const Options& options);

  // Waits for the child's answer; call it once. `cancel_fd`: when it becomes
  // readable, the wait ends with CANCELLED; -1: none. DEADLINE_EXCEEDED: no
  // answer in time. FAILED_PRECONDITION with the exit status: the child ended.
  // Other errors: those of ParseMintedIds.
  absl::StatusOr<NcclIds> Await(absl::Duration timeout, int cancel_fd);

  pid_t pid() const { return child_.pid(); }

 private:
  NcclMint(ChildProcess child, uint32_t count)
      : child_(std::move(child)), count_(count) {}

  // The destructor kills and reaps the child.
  ChildProcess child_;
  const uint32_t count_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_NCCL_MINT_H_
