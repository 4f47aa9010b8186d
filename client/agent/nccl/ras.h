// Ras: asks NCCL's RAS service whether the ranks of this node are behind other
// ranks or wait for them.
//
// The service listens on the loopback address of every machine that has a
// process of the job (NCCL_RAS_ADDR, default localhost:28028), and answers for
// the whole job. All processes on a machine share the port, and a connection
// reaches any of them. That process may be stopped or belong to another job, so
// several connections are tried.
//
// Thread rule: any thread. Callers at about the same time share one question,
// because all ranks of a node stall at almost the same time.
#ifndef ROLLCALL_CLIENT_AGENT_NCCL_RAS_H_
#define ROLLCALL_CLIENT_AGENT_NCCL_RAS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/agent/nccl/ras_status.h"
#include "daemon/base/mutex.h"

namespace rollcall {

// Asks once, at "ADDRESS:PORT" ("[ADDRESS]:PORT", localhost). Blocks for at
// most `patience`, but not after `quit` (a descriptor; -1: none) becomes
// readable. UNAVAILABLE: nothing listens there.
absl::StatusOr<RasStatus> AskRas(absl::string_view address,
                                 absl::Duration patience, int quit = -1);

class Ras {
 public:
  // How long one rank waits, for the question of another rank and its own.
  static constexpr absl::Duration kPatience = absl::Seconds(4);

  // `environment`: that of the agent, "NAME=value", which its ranks get too.
  // A variable that a rank sets by itself is not known.
  explicit Ras(const std::vector<std::string>& environment,
               absl::Duration patience = kPatience);

  // Where the rank with these processes stands. Blocks for at most `patience`;
  // ends at once when `quit` (a descriptor; -1: none) becomes readable.
  // UNAVAILABLE: no NCCL runs here, or NCCL_RAS_ENABLE=0. CANCELLED: `quit`.
  // DEADLINE_EXCEEDED, FAILED_PRECONDITION: the service does not answer as
  // NCCL 2.28.7 or newer does. INVALID_ARGUMENT: NCCL_RAS_ADDR or the answer.
  // RESOURCE_EXHAUSTED: the answer has more than kRasPartsMax parts.
  absl::StatusOr<RasPlace> Find(const std::vector<pid_t>& pids, int quit);

 private:
  using Answer = absl::StatusOr<RasStatus>;

  Answer AskFor(const RasProcesses& processes, absl::Time until,
                int quit) const;

  // Empty: NCCL_RAS_ENABLE=0.
  std::string address_;
  const absl::Duration patience_;
  Mutex mutex_;
  // One caller asks; the others wait for the answer.
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar asked_;
  std::shared_ptr<const Answer> answer_ ABSL_GUARDED_BY(mutex_);
  absl::Time answered_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_RAS_H_
