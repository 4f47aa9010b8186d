// Makes a job id from any name, in the same way on every node.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_JOB_NAME_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_JOB_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// In lower case; every other character than [a-z0-9] becomes '-', '-' at both
// ends is removed, and the result is cut to the length of a job id. Empty:
// `name` has no letter or digit. Two names may give the same id. Pure.
std::string JobIdOf(absl::string_view name);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_JOB_NAME_H_
