// Detectors: for each platform, what its variables mean.
//
// Pure: they read a NodeEnvironment alone.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_DETECTORS_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_DETECTORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/platform/environment.h"
#include "client/launch/platform/evidence.h"

namespace rollcall {

// What each platform whose variables are set says, the innermost first: a
// program that was started by mpirun inside of a Slurm job belongs to mpirun.
// INVALID_ARGUMENT: a variable has a value that its platform does not give it.
absl::StatusOr<std::vector<Evidence>> DetectAll(
    const NodeEnvironment& environment);

// What ROLLCALL_NODE_RANK, ROLLCALL_NODES and ROLLCALL_LAUNCHER say.
absl::StatusOr<Evidence> OwnVariables(const NodeEnvironment& environment);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_DETECTORS_H_
