// Which settings of the network plan a command of this node gets, and which of
// the user's own settings cannot work here.
//
// What the user has set, in the environment or in NCCL's configuration files,
// is kept. Pure except ReadNcclConf.
#ifndef ROLLCALL_CLIENT_AGENT_NCCL_NETWORK_SETTINGS_H_
#define ROLLCALL_CLIENT_AGENT_NCCL_NETWORK_SETTINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// --nccl-env.
enum class NcclEnv {
  kAll,     // Also what NCCL would find by itself.
  kNeeded,  // What NCCL would choose wrong.
  kNone,    // Nothing.
};

struct NetworkOptions {
  NcclEnv nccl_env = NcclEnv::kNeeded;
  // By name: the value and the file that sets it.
  std::map<std::string, std::pair<std::string, std::string>> conf;
  // This node's own.
  v1::Facts facts;
};

struct NetworkSettings {
  // The variables to set; the user has set none of them.
  std::vector<std::pair<std::string, std::string>> variables;
  // Each names the variable, its value and where it comes from.
  std::vector<std::string> warnings;
};

// `environment`: "NAME=value". Only network settings of NCCL, UCX and Gloo are
// taken from the plan, whatever else a daemon sends.
NetworkSettings SettingsFor(const v1::World& world, uint32_t node_rank,
                            const std::vector<std::string>& environment,
                            const NetworkOptions& options);

// The files that NCCL reads: $NCCL_CONF_FILE, else ~/.nccl.conf, then
// /etc/nccl.conf. The first file that sets a variable counts. Unreadable files
// are skipped, as in NCCL; at most 64 KiB of each is read.
std::map<std::string, std::pair<std::string, std::string>> ReadNcclConf(
    const std::vector<std::string>& environment);

// Whether NCCL's list ("mlx5", "=mlx5_0:1,mlx5_1", "^docker") selects a device.
// `port`: 0 for interfaces.
bool NcclListSelects(absl::string_view list, absl::string_view device,
                     uint32_t port);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_NETWORK_SETTINGS_H_
