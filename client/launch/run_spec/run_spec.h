// RunSpec: what the file of `rollcall launch --spec FILE` says.
//
// Most keys are flags of `launch` without the dashes, and become such flags, so
// that there is one list of what a value may be. The command, the environment
// of the ranks and `spawn` (how the other agents are started) have forms of
// their own. Reference: "A run spec" in client/README.md.
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

// A flag of `launch` that the file stands for.
struct SpecFlag {
  std::string name;  // With its dashes.
  std::string value;
  TextPlace place;
};

struct RunSpec {
  // In the order of the file; a flag with several values is there for each.
  std::vector<SpecFlag> flags;
  // Empty: the file has none.
  std::vector<std::string> command;
  // For all ranks, "NAME=VALUE".
  std::vector<std::string> environment;
};

// Whether the flag of this name (with its dashes) takes this value.
// INVALID_ARGUMENT: the message says what was expected and found.
using FlagCheck =
    std::function<absl::Status(const std::string&, const std::string&)>;

// `folder`: of the file; relative paths in it begin there. INVALID_ARGUMENT: a
// line for each mistake, with `file`, line and column, and what was expected
// and found; at most 20.
absl::StatusOr<RunSpec> ParseRunSpec(absl::string_view text,
                                     const std::string& file,
                                     const std::string& folder,
                                     const FlagCheck& check);

// The keys that stand for flags, without dashes.
std::vector<std::string> RunSpecKeys();

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RUN_SPEC_RUN_SPEC_H_
