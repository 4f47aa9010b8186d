// Platform: this node's place in the run, from flags, ROLLCALL_* variables and
// the scheduler's variables, in this order.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_PLATFORM_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_PLATFORM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/platform/environment.h"
#include "client/launch/platform/evidence.h"

namespace rollcall {

enum class PlatformRole {
  // No evidence of other nodes.
  kAlone,
  kLauncher,
  kWorker,
  // There are other nodes, but this node's place among them is unknown.
  kUnknown,
};

// "alone", "launcher", "worker" or "unknown".
const char* Name(PlatformRole role);

struct Platform {
  // Every platform that was detected, the innermost first.
  std::vector<std::string> names;
  // The combined evidence of all; `platform` is empty.
  Evidence place;
  PlatformRole role = PlatformRole::kAlone;
};

// `flags`: the command line's evidence, which wins over everything else.
// INVALID_ARGUMENT: a variable has no valid value, or two platforms contradict
// each other about the node rank or the number of nodes, and neither a flag nor
// a ROLLCALL_* variable decides; the message names both variables and what to
// give. A flag for the node rank also removes an obstacle.
absl::StatusOr<Platform> DetectPlatform(const NodeEnvironment& environment,
                                        const Evidence& flags = {});

// The attempt alone, for commands that take their place from flags. Unknown:
// the platform has no such variable, or its value cannot be read.
// INVALID_ARGUMENT: ROLLCALL_ATTEMPT is not a number.
absl::StatusOr<Known<uint32_t>> DetectAttempt(
    const NodeEnvironment& environment);

// One line for each known value: "node_rank 2: SLURM_NODEID=2".
std::vector<std::string> Because(const Platform& platform);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_PLATFORM_H_
