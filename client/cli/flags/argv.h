// Argv: the process's arguments, split but not parsed.
//
// Pure except HideSecrets, which writes into argv.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_ARGV_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_ARGV_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rollcall {

struct Argv {
  // The arguments before the first `--`, without the program's name. In flags
  // '_' is replaced by '-', because torchrun's users write --nproc_per_node.
  std::vector<std::string> flags;
  // The arguments after the `--`, unchanged.
  std::vector<std::string> command;
  // There was a `--`.
  bool has_command = false;
  // `flags` include the settings of `launch --spec FILE`.
  bool with_spec = false;
  // `flags` has one of several flags, whose combination is checked later.
  bool one_of_many = false;
};

Argv SplitArguments(int argc, char** argv);

// Whether an argument is a join string, or an altered one.
bool LooksSecret(const std::string& word);

// Overwrites the join strings before the `--`, so that `ps` does not show them.
void HideSecrets(int argc, char** argv);

// Replaces what follows `rc1.` in each join string of a text for the user,
// whose output may be kept. The characters of altered join strings stay.
std::string WithoutJoinStrings(absl::string_view text);

// `90`, `90s`, `10m`, `1h30m`: greater than zero and at most `most`.
// INVALID_ARGUMENT: the message names the flag.
absl::StatusOr<absl::Duration> ParseDurationFlag(
    const std::string& flag, const std::string& text,
    absl::Duration most = absl::Hours(24 * 366));

// Parses a signal's name or number (`TERM`, `SIGTERM`, `15`).
// INVALID_ARGUMENT: no signal, or one that a process cannot handle; the message
// names the flag.
absl::StatusOr<int> ParseSignalFlag(const std::string& flag,
                                    const std::string& text);

struct NodeCount {
  uint32_t min = 0;
  uint32_t max = 0;
};
// `N` or `MIN:MAX`. INVALID_ARGUMENT: the message has what was expected and
// what was found.
absl::StatusOr<NodeCount> ParseNodes(const std::string& text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_ARGV_H_
