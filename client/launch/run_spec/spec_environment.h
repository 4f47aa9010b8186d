// Decides which variables a run spec may give to ranks.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_SPEC_ENVIRONMENT_H_
#define ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_SPEC_ENVIRONMENT_H_

#include <string>

#include "absl/status/status.h"

namespace rollcall {

// INVALID_ARGUMENT: `name` is not a valid name, is set by rollcall, or would
// load code into the agent. Agents inherit these variables before the ranks do,
// and an agent may be root where ranks are not (--rank-user).
absl::Status CheckSpecVariable(const std::string& name);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_SPEC_ENVIRONMENT_H_
