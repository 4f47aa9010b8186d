// NcclMint: the child process whose NCCL ids a generation uses.
//
// Starts `mint-nccl-id`, reads its answer, and keeps it running while the ids
// are in use: a root listens there until all ranks have checked in. The child's
// stdin is a pipe whose other end only this process has, so the child always
// ends with this process.
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
#include "daemon/base/child_process.h"
#include "daemon/base/system_user.h"

namespace rollcall {

class NcclMint {
 public:
  struct Options {
    // The rollcall binary.
    std::string self = "/proc/self/exe";
    std::string library;
    // As whom the child runs; nullopt: as this process's user.
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

  // Waits for its answer; call it once. `cancel_fd`: the wait ends with
  // CANCELLED when it becomes readable; -1: none. DEADLINE_EXCEEDED: no answer
  // in time. Other errors as ParseMintedIds; for a child that died the error
  // says how.
  absl::StatusOr<NcclIds> Await(absl::Duration timeout, int cancel_fd);

  pid_t pid() const { return child_.pid(); }

 private:
  NcclMint(ChildProcess child, uint32_t count)
      : child_(std::move(child)), count_(count) {}

  // Killed and reaped by its destructor.
  ChildProcess child_;
  const uint32_t count_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_NCCL_MINT_H_
