// The environment and the files of each rank of this node.
//
// Pure except WriteRankFiles. The environment is that of torchrun, complete,
// plus ROLLCALL_*; see the table in client/README.md.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_ENVIRONMENT_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/nccl/network_settings.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Paths of one generation's files, below the agent's run folder (0700).
struct RankFiles {
  std::string folder;        // <run folder>/gen-<generation>
  std::string world_file;    // ROLLCALL_WORLD_FILE
  std::string nccl_id_file;  // ROLLCALL_NCCL_ID_FILE; empty: no ids
  std::string hostfile;      // ROLLCALL_HOSTFILE
  std::string notice_file;   // ROLLCALL_NOTICE; appears with a notice
  std::string socket;        // ROLLCALL_SOCKET
  // By local rank.
  std::vector<std::string> progress_files;  // ROLLCALL_PROGRESS
  std::vector<std::string> error_files;     // TORCHELASTIC_ERROR_FILE
};

RankFiles NameRankFiles(const std::string& run_folder,
                        const std::string& socket, const v1::World& world,
                        const v1::WorldCommit& world_commit,
                        uint32_t node_rank);

// Writes all files that exist from the start into their folder (see
// RunFolder::Add). `user`: the owner of the files, who may write into the
// folder; null: this process's user. Errors name the path and the system's
// error.
absl::Status WriteRankFiles(const RankFiles& files, const v1::World& world,
                            const v1::WorldCommit& world_commit,
                            const SystemUser* user = nullptr);

// The number of times that the platform has started the run again, for ranks.
// The command that starts the agent knows the platform and sets this variable
// for the agent.
inline constexpr char kAttemptVariable[] = "ROLLCALL_ATTEMPT";

// The value of a variable in `environment` ("NAME=value"); empty: not set.
std::string VariableIn(const std::vector<std::string>& environment,
                       const std::string& name);

// `inherited` ("NAME=value") without what a command of this node must not see:
// secrets (ROLLCALL_JOIN, ROLLCALL_SECRET* and all other ROLLCALL_*) and
// variables of an outer launcher. Adds the job's variables, which win.
std::vector<std::string> CleanEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network);

// CleanEnvironment with this node's network plan from SettingsFor.
std::vector<std::string> CommandEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const v1::World& world, uint32_t node_rank);

// The whole environment of the node's set-up command: that of a rank without
// what a world gives it, with ROLLCALL_JOB, ROLLCALL_NODE, and `socket` as
// ROLLCALL_SOCKET, by which its processes are found.
std::vector<std::string> SetupEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const std::string& job, const std::string& node, const std::string& socket);

// The whole environment of one rank: CommandEnvironment plus torchrun's
// variables and ROLLCALL_*. `inherited`: the agent's own environment,
// "NAME=value". The user's own values of OMP_NUM_THREADS and of the network
// plan's variables are kept. ROLLCALL_ATTEMPT is kept too; if it is not set, it
// becomes 0.
std::vector<std::string> RankEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const RankFiles& files, const v1::World& world,
    const v1::WorldCommit& world_commit, uint32_t node_rank,
    uint32_t local_rank);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_ENVIRONMENT_H_
