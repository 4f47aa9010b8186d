// RunSpec: the contents of the file of `rollcall launch --spec FILE`.
//
// Most keys are flags of `launch` without the dashes, and become such flags, so
// that the valid values are defined in one place. The command, the environment
// of the ranks and `spawn` (how the other agents are started) have their own
// syntax. Reference: "A run spec" in client/README.md.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_RUN_SPEC_H_
#define ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_RUN_SPEC_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/launch/run_spec/yaml_tree.h"

namespace rollcall {

// A flag of `launch` that the file sets.
struct SpecFlag {
  std::string name;  // With its dashes.
  std::string value;
  TextPlace place;
};

struct RunSpec {
  // In the order of the file; a flag with several values has an entry for each.
  std::vector<SpecFlag> flags;
  // Empty: the file has none.
  std::vector<std::string> command;
  // For all ranks, "NAME=VALUE".
  std::vector<std::string> environment;
};

// Whether the flag of this name (with its dashes) accepts this value.
// INVALID_ARGUMENT: the message has what was expected and what was found.
using FlagCheck =
    std::function<absl::Status(const std::string&, const std::string&)>;

// `folder`: the file's folder, in which relative paths begin. INVALID_ARGUMENT:
// the message has a line for each mistake (at most 20), with `file`, line and
// column, what was expected and what was found.
absl::StatusOr<RunSpec> ParseRunSpec(absl::string_view text,
                                     const std::string& file,
                                     const std::string& folder,
                                     const FlagCheck& check);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_RUN_SPEC_H_
