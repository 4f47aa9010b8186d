// CommandWords: checks the argv of a command before it is started: whether the
// command starts ranks or a container itself, and what it then needs.
//
// `env`, `sudo` and `nohup` before a program are skipped. A command inside `sh
// -c '...'` is not examined.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_COMMAND_WORDS_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_COMMAND_WORDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace rollcall {

// INVALID_ARGUMENT: the command starts the ranks of a node itself (torchrun,
// deepspeed, accelerate, mpirun, srun), and would be started once per rank. The
// message has a command line that works. `nproc_per_node`: the value of
// --nproc-per-node.
absl::Status CheckRankStarter(const std::vector<std::string>& command,
                              const std::string& nproc_per_node, bool once);

// INVALID_ARGUMENT: the command asks a service to start a container (docker,
// podman, nerdctl, Slurm). The container's processes would not be descendants
// of the agent, and would get neither its variables nor its signals. The
// message has the way to start rollcall in the container.
absl::Status CheckContainer(const std::vector<std::string>& command);

// What a command needs if its container (apptainer, enroot) is a descendant of
// the agent but sees other files; empty: nothing, or it starts no container.
// `runtime_dir`: XDG_RUNTIME_DIR, in which the agent makes the folder of its
// ranks' files; empty: it makes the folder in /tmp.
std::string ContainerAdvice(const std::vector<std::string>& command,
                            const std::string& runtime_dir);

// A warning for a command that starts ranks itself on every node without an
// option that names other nodes (torchrun without --nnodes): each node would
// train alone, without an error. Empty: the command is not of this kind.
std::string SeparateWorldsAdvice(const std::vector<std::string>& command,
                                 bool once);

// A warning about a flag of the command with an empty value, such as
// --node_rank "$NODE_RANK": the variables of a rank do not exist yet when the
// shell expands this command line. Empty: there is no such flag.
std::string EmptyValueAdvice(const std::vector<std::string>& command);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_COMMAND_WORDS_H_
