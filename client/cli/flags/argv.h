// Argv: the arguments before flags are parsed.
//
// Pure except HideSecrets, which writes into argv.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_ARGV_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_ARGV_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rollcall {

struct Argv {
  // The words before the first `--`, without the program's name; '_' in flags
  // is replaced by '-', since torchrun's users write --nproc_per_node.
  std::vector<std::string> flags;
  // The words after it, unchanged.
  std::vector<std::string> command;
  // There was a `--`.
  bool has_command = false;
  // The settings of `launch --spec FILE` are among `flags`.
  bool with_spec = false;
};

Argv SplitArguments(int argc, char** argv);

// Whether a word is a join string, or an altered one.
bool LooksSecret(const std::string& word);

// Overwrites such words before the `--`, so that `ps` does not show them.
void HideSecrets(int argc, char** argv);

// `90`, `90s`, `10m`, `1h30m`: more than zero, at most `most`. INVALID_ARGUMENT
// names the flag.
absl::StatusOr<absl::Duration> ParseDurationFlag(
    const std::string& flag, const std::string& text,
    absl::Duration most = absl::Hours(24 * 366));

// `TERM`, `SIGTERM`, `15`: a signal that a process may handle. INVALID_ARGUMENT
// names the flag.
absl::StatusOr<int> ParseSignalFlag(const std::string& flag,
                                    const std::string& text);

struct NodeCount {
  uint32_t min = 0;
  uint32_t max = 0;
};
// `N` or `MIN:MAX`. INVALID_ARGUMENT says what was expected and found.
absl::StatusOr<NodeCount> ParseNodes(const std::string& text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_ARGV_H_
