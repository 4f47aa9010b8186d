// RunPlan: whether `rollcall run` launches or joins on this node.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_CLI_RUN_PLAN_H_
#define ROLLCALL_CLIENT_CLI_RUN_PLAN_H_

#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "client/cli/flags/flags.h"
#include "client/launch/platform/environment.h"

namespace rollcall {

struct RunPlan {
  std::variant<LaunchFlags, JoinFlags> command;
  // A message for the user: what this node does, and from which flag or
  // variable that is known.
  std::string notice;
};

// INVALID_ARGUMENT: this node's place is unknown or contradictory, a setting
// that a run on several nodes needs is missing, or the platform started this
// process in a way that does not fit. The message has what to give.
absl::StatusOr<RunPlan> PlanRun(const RunFlags& flags,
                                const NodeEnvironment& environment);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_RUN_PLAN_H_
