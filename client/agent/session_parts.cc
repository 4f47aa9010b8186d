#include "client/agent/session_parts.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_file.h"

namespace rollcall {

NodeChecksOptions ForChecks(const AgentOptions& options,
                            const RunFolder& folder) {
  NodeChecksOptions wanted{.run_folder = folder.path(),
                           .log_dir = options.log_dir};
  // The GPUs that the command sees, as in CheckNode.
  wanted.gpus = options.network.facts.gpu_count();
  wanted.facts = options.facts;
  return wanted;
}

NodeFactsOptions ForFactWatch(const AgentOptions& options) {
  NodeFactsOptions watched = options.facts;
  watched.devices.folders.clear();
  for (const v1::FolderSpace& folder : options.network.facts.folders()) {
    watched.devices.folders.push_back(folder.path());
  }
  return watched;
}

PreparationOptions ForPreparation(const AgentOptions& options) {
  return {.node = options.hello.node(),
          .hosts_file = options.hosts_file,
          .hosts_names = options.hosts_names,
          .nccl_library = options.nccl_library,
          .user = options.rank_user,
          .environment = options.environment};
}

ProcessesOptions ForProcesses(const AgentOptions& options,
                              const RunFolder& folder) {
  ProcessesOptions wanted{.node = options.hello.node(),
                          .log_dir = options.log_dir};
  wanted.output_to_stderr = options.output_to_stderr;
  wanted.live_bell = options.live_bell;
  wanted.user = options.rank_user;
  wanted.subreaper = options.subreaper;
  if (!options.hosts_file.empty()) {
    // The guard that Processes starts changes its working folder, so the path
    // must be absolute.
    std::error_code failed;
    wanted.hosts_file =
        std::filesystem::absolute(options.hosts_file, failed).string();
  }
  wanted.marker = absl::StrCat("ROLLCALL_SOCKET=", folder.socket());
  return wanted;
}

void Warn(const AgentOptions& options, std::string text) {
  if (options.report) {
    options.report({Report::Kind::kWarning, std::move(text)});
  }
}

void RemoveDeadHosts(const AgentOptions& options) {
  if (options.hosts_file.empty()) return;
  for (std::string& warning : HostsFile(options.hosts_file).RemoveDead()) {
    Warn(options, std::move(warning));
  }
}

}  // namespace rollcall
