// OwnNode: whether an agent of an earlier launcher serves this launcher's node,
// after this launcher's own agent has failed.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_OWN_NODE_H_
#define ROLLCALL_CLIENT_LAUNCH_OWN_NODE_H_

#include <string>

#include "absl/status/statusor.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

enum class OwnNode {
  kUnserved,
  kServed,
  // The daemon does not answer, or the node is suspect.
  kUnknown,
};

// Only a refused agent (kExitRefused or kExitRendezvous) in a run with worlds
// can have been refused in favour of an earlier launcher's agent: the daemon
// prefers the launcher's agent to a worker of the same name. `exit_code`: of
// the own agent. `ran`: a world was committed, or may have been. `status`: the
// daemon's answer.
OwnNode OwnNodeAfter(int exit_code, bool ran, const std::string& node,
                     const absl::StatusOr<v1::JobStatus>& status);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_OWN_NODE_H_
