#include "client/agent/session_parts.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/hosts/hosts_file.h"
#include "client/facts/system/network.h"
#include "daemon/core/admission/communication_variables.h"

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

std::vector<RankCommand> RankCommandsFor(const AgentOptions& options,
                                         const RankFiles& files,
                                         const StartRanks& start) {
  std::vector<RankCommand> commands;
  for (const uint32_t local : start.fresh) {
    RankCommand command;
    command.local_rank = local;
    command.rank = start.world.members(start.node_rank).first_rank() + local;
    command.argv = options.command;
    command.environment = RankEnvironment(
        options.environment, options.network, files, start.world,
        start.world_commit, start.node_rank, local);
    if (local < files.error_files.size()) {
      command.error_file = files.error_files[local];
    }
    if (local < files.progress_files.size()) {
      command.marker =
          absl::StrCat("ROLLCALL_PROGRESS=", files.progress_files[local]);
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

std::vector<std::string> SetJobVariables(const v1::JobSettings& settings,
                                         AgentOptions& options) {
  NetworkOptions& network = options.network;
  std::vector<std::string> warnings;
  network.job_variables = JobVariables(settings, warnings);
  for (const auto& [name, value] : network.job_variables) {
    std::string own = VariableIn(options.environment, name);
    std::string from = "this node's environment";
    const auto in_file = network.conf.find(name);
    if (own.empty() && in_file != network.conf.end()) {
      std::tie(own, from) = in_file->second;
    }
    if (own.empty() || own == value) continue;
    warnings.push_back(absl::StrCat(
        name, "=", value, " (--env of the launcher) replaces ",
        MayBeSecret(name, own) ? "another value" : own, " of ", from));
  }
  return warnings;
}

std::unique_ptr<Prober> StartProber(AgentOptions& options,
                                    std::function<void(AgentEvent)> post) {
  // --insecure: all nodes are on this machine, so none is probed.
  if (options.trust.insecure) return nullptr;
  auto prober = Prober::Start(
      // Gathers addresses again before each probe, because a probe of a removed
      // address would fail.
      [post] {
        ChecksDone network;
        GatherNetwork(*network.report.mutable_facts());
        post(std::move(network));
      },
      [post](v1::Probed probed) { post(ProbeDone{std::move(probed)}); });
  if (!prober.ok()) {
    Warn(options, std::string(prober.status().message()));
    return nullptr;
  }
  options.network.facts.set_probe_port((*prober)->port());
  return *std::move(prober);
}

std::unique_ptr<GroupChecks> MakeGroupChecks(
    const AgentOptions& options, std::function<void(AgentEvent)> post) {
  std::string program = GroupCheckProgram();
  if (program.empty()) return nullptr;
  return std::make_unique<GroupChecks>(
      GroupChecks::Options{std::move(program), options.rank_user},
      [post](v1::AgentMessage m) { post(GroupCheckSaid{std::move(m)}); });
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
