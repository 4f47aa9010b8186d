// CommandWords: what the words of a command say before it is started: whether
// it starts ranks or a container itself, and what it then needs.
//
// `env`, `sudo` and `nohup` in front of a program are passed over. What a shell
// starts (`sh -c '...'`) is not seen.
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
// message has a line that works. `nproc_per_node`: as --nproc-per-node takes
// it.
absl::Status CheckRankStarter(const std::vector<std::string>& command,
                              const std::string& nproc_per_node, bool once);

// INVALID_ARGUMENT: the command asks a service to start a container (docker,
// podman, nerdctl, Slurm): the container's processes are no descendants of the
// agent and get neither its variables nor its signals. The message has the way
// to start rollcall in the container.
absl::Status CheckContainer(const std::vector<std::string>& command);

// What a command needs whose container (apptainer, enroot) is a descendant of
// the agent but sees other files; empty: nothing, or it starts no container.
// `runtime_dir`: XDG_RUNTIME_DIR, where the agent makes the folder of its
// ranks' files; empty: it is made in /tmp.
std::string ContainerAdvice(const std::vector<std::string>& command,
                            const std::string& runtime_dir);

// The command starts ranks itself and is started on every node, but its words
// do not say that there are other nodes (torchrun without --nnodes): each node
// would train alone, and no error would say so. Empty: it is not so.
std::string SeparateWorldsAdvice(const std::vector<std::string>& command,
                                 bool once);

// A flag of the command whose value is empty, such as --node_rank "$NODE_RANK":
// the variables of a rank do not exist yet when this command line is expanded.
// Empty: there is no such flag.
std::string EmptyValueAdvice(const std::vector<std::string>& command);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_COMMAND_WORDS_H_
