// Which variables the launcher's --env may set for the ranks of all nodes.
//
// Only names that are known to change how ranks communicate or compute, and
// none that load code or name a file or a program: a daemon must not be able to
// make a node run something. So the command line, the daemon and every agent
// check them, each for itself. Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_ADMISSION_JOB_VARIABLES_H_
#define ROLLCALL_DAEMON_CORE_ADMISSION_JOB_VARIABLES_H_

#include <string_view>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// INVALID_ARGUMENT: the name is not one of those.
absl::Status AdmitJobVariableName(std::string_view name);

// Also checks the value: 1 to Limits::job_variable_bytes_max bytes of printable
// ASCII without a '/', so that it names no file.
absl::Status AdmitJobVariable(const v1::JobVariable& variable);

// All variables of a job: sorted by name, each name once, at most
// Limits::job_variables_max.
absl::Status AdmitJobVariables(const v1::JobSettings& settings);

// Adds the variable, or replaces the one of the same name. Keeps the order.
void SetJobVariable(const v1::JobVariable& variable, v1::JobSettings& to);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ADMISSION_JOB_VARIABLES_H_
