// What each rank of this node gets: its environment and its files.
//
// Pure but for WriteRankFiles. The contract is torchrun's, complete, plus
// ROLLCALL_*; see client/README.md's table.
#ifndef ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_ENVIRONMENT_H_
#define ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/nccl/network_settings.h"
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
                        const v1::Seal& seal, uint32_t node_rank);

// Writes the folder and all files that exist from the start. Errors name the
// path and the system's reason.
absl::Status WriteRankFiles(const RankFiles& files, const v1::World& world,
                            const v1::Seal& seal);

// `inherited` ("NAME=value") as a command of this node may see it: without
// secrets (ROLLCALL_JOIN, ROLLCALL_SECRET* and all else of ROLLCALL_*) and
// without leftovers of an outer launcher's contract; plus this node's network
// plan as SettingsFor gives it.
std::vector<std::string> CommandEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const v1::World& world, uint32_t node_rank);

// The whole environment of one rank: `inherited` (the agent's own,
// "NAME=value") without secrets (ROLLCALL_JOIN, ROLLCALL_SECRET*) and without
// leftovers of an outer launcher's contract, then the contract. What the user
// set stays where the design says so (OMP_NUM_THREADS, what the network plan
// would set).
std::vector<std::string> RankEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const RankFiles& files, const v1::World& world, const v1::Seal& seal,
    uint32_t node_rank, uint32_t local_rank);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NODE_FILES_RANK_ENVIRONMENT_H_
