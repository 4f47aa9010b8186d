// Detectors: what the variables of each platform mean.
//
// Pure: they read a NodeEnvironment alone.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_DETECTORS_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_DETECTORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/launch/platform/environment.h"
#include "client/launch/platform/evidence.h"

namespace rollcall {

// The evidence of each platform whose variables are set, the innermost first: a
// program that mpirun started inside a Slurm job belongs to mpirun.
// INVALID_ARGUMENT: a variable has a value that its platform never gives it.
absl::StatusOr<std::vector<Evidence>> DetectAll(
    const NodeEnvironment& environment);

// The evidence of ROLLCALL_NODE_RANK, ROLLCALL_NODES and ROLLCALL_LAUNCHER.
absl::StatusOr<Evidence> OwnVariables(const NodeEnvironment& environment);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_DETECTORS_H_
