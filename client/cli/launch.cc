// `rollcall launch`: turns flags into what the supervisor needs.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/place.h"
#include "client/launch/launch_folder.h"
#include "client/launch/supervisor.h"
#include "daemon/core/durations.h"
#include "daemon/core/limits.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

// What every agent that is started here gets of the launcher's own flags.
std::vector<std::string> AgentFlags(const LaunchFlags& flags) {
  const LocalFlags& local = flags.local;
  std::vector<std::string> to = {"--nproc-per-node", local.nproc_per_node};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) to.insert(to.end(), {name, value});
  };
  add("--log-dir", local.log_dir);
  add("--nccl-lib", local.nccl_lib);
  if (local.no_hosts) {
    to.push_back("--no-hosts");
  } else {
    add("--hosts-file", local.hosts_file);
  }
  if (local.once) to.push_back("--once");
  if (local.json) to.push_back("--json");
  return to;
}

// All that the launcher itself goes by is set; the rest is the daemon's.
v1::JobSettings Settings(const LaunchFlags& flags, const std::string& node) {
  const Limits limits;
  v1::JobSettings settings = flags.settings;
  ToProto(limits.stop_grace, settings.mutable_stop_grace());
  settings.set_requeue_exit_code(limits.requeue_exit_code);
  if (!node.empty()) settings.add_expected_nodes(node);
  const uint32_t named =
      std::min<uint32_t>(flags.local_workers, Limits::expected_nodes_max - 1);
  for (uint32_t i = 1; i <= named; ++i) {
    settings.add_expected_nodes(LocalWorkerName(i));
  }
  return settings;
}

}  // namespace

int RunLaunchCommand(const LaunchFlags& flags) {
  LaunchOptions options;
  options.ephemeral = flags.job.empty() && flags.state.empty();
  options.job =
      flags.job.empty()
          ? absl::StrCat("job-", absl::BytesToHexString(RandomBytes(3)))
          : flags.job;
  auto listen = ParseHostPort(flags.listen);
  if (!listen.ok()) {
    Complain(absl::StrCat("--listen: ", listen.status().message()));
    return kExitUsage;
  }
  options.listen = *std::move(listen);
  auto token = GivenToken(flags.token_file);
  if (!token.ok()) return Fail(token.status());
  options.token = *std::move(token);
  if (!flags.no_worker) {
    auto node = NodeName(flags.local.name);
    if (!node.ok()) return Fail(node.status());
    options.node = *std::move(node);
  }
  options.settings = Settings(flags, options.node);
  options.state_dir = flags.state.empty()
                          ? absl::StrCat(StateRoot(), "/", options.job)
                          : std::filesystem::absolute(flags.state).string();
  options.local_workers = flags.local_workers;
  options.agent_flags = AgentFlags(flags);
  options.command = flags.command;
  options.environment = PlainEnvironment();
  options.json = flags.local.json;
  UseSystemResolver();
  return RunLaunch(std::move(options));
}

}  // namespace rollcall
