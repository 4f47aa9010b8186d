// Flags of `launch` that exclude each other.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_EXCLUSIVE_FLAGS_H_
#define ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_EXCLUSIVE_FLAGS_H_

#include <string>

namespace rollcall {

// Whether one of these flags replaces or contradicts the other. Names have
// their dashes.
bool ExcludesFlag(const std::string& one, const std::string& other);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_EXCLUSIVE_FLAGS_H_
