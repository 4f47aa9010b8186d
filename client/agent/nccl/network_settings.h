// Which settings of the network plan a command of this node gets, and which of
// the user's own settings cannot work here.
//
// Settings that the user has made, in the environment or in NCCL's
// configuration files, are kept. Pure except ReadNcclConf.
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
  // Settings in NCCL's files, by name: the value and the file that sets it.
  std::map<std::string, std::pair<std::string, std::string>> conf;
  // This node's facts.
  v1::Facts facts;
  // The job's variables (the launcher's --env), by name. They win over those of
  // the environment and of the plan.
  std::map<std::string, std::string> job_variables;
};

// Those of the job's variables that may be set here. A daemon is not trusted to
// send only such ones; `refused` gets a message for each of the others.
std::map<std::string, std::string> JobVariables(
    const v1::JobSettings& settings, std::vector<std::string>& refused);

struct NetworkSettings {
  // The variables to set; the user has set none of them.
  std::vector<std::pair<std::string, std::string>> variables;
  // Each warning names the variable, its value and where it was set.
  std::vector<std::string> warnings;
};

// `environment`: "NAME=value". Takes only network settings of NCCL, UCX and
// Gloo from the plan, even if a daemon sends other variables.
NetworkSettings SettingsFor(const v1::World& world, uint32_t node_rank,
                            const std::vector<std::string>& environment,
                            const NetworkOptions& options);

// The files that NCCL reads: $NCCL_CONF_FILE, else ~/.nccl.conf, then
// /etc/nccl.conf. The first file that sets a variable counts. Unreadable files
// are skipped, as in NCCL; at most 64 KiB of each is read.
std::map<std::string, std::pair<std::string, std::string>> ReadNcclConf(
    const std::vector<std::string>& environment);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NCCL_NETWORK_SETTINGS_H_
