// Slurm's node lists, expanded without `scontrol`.
#ifndef ROLLCALL_CLIENT_LAUNCH_PLATFORM_NODE_LIST_H_
#define ROLLCALL_CLIENT_LAUNCH_PLATFORM_NODE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

// The names of `n[1-3,07-10],m5`, in the order of the list. Brackets hold
// numbers and ranges. A range keeps the width of its first number. Several
// brackets of a name (`r[1-2]n[1-4]`) are combined; the last one varies
// fastest. INVALID_ARGUMENT: the message has the column, counted from 1, and
// what was expected. RESOURCE_EXHAUSTED: the list has more names than a job may
// have nodes. Pure.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_PLATFORM_NODE_LIST_H_
