#include "client/agent/node_files/rank_environment.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/agent/node_files/world_files.h"
#include "daemon/base/check.h"

namespace rollcall {
namespace {

// torchrun's variables without TORCHELASTIC_*.
constexpr const char* kContract[] = {
    "RANK",       "LOCAL_RANK",       "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",  "ROLE_WORLD_SIZE",
    "ROLE_NAME",  "NODE_RANK",        "NNODES",     "MASTER_ADDR",
    "MASTER_PORT"};

absl::string_view NameOf(absl::string_view entry) {
  return entry.substr(0, entry.find('='));
}

// Whether the variable was set by an outer launcher or by rollcall, and not by
// the user for the command.
bool IsLeftover(absl::string_view name) {
  return absl::StartsWith(name, "ROLLCALL_") ||
         absl::StartsWith(name, "TORCHELASTIC_") ||
         std::any_of(std::begin(kContract), std::end(kContract),
                     [&](const char* ours) { return name == ours; });
}

bool Has(const std::vector<std::string>& environment, absl::string_view name) {
  return std::any_of(
      environment.begin(), environment.end(),
      [&](const std::string& entry) { return NameOf(entry) == name; });
}

template <typename Value>
void Set(std::vector<std::string>& environment, absl::string_view name,
         const Value& value) {
  environment.push_back(absl::StrCat(name, "=", value));
}

}  // namespace

std::string VariableIn(const std::vector<std::string>& environment,
                       const std::string& name) {
  const std::string prefix = absl::StrCat(name, "=");
  for (const std::string& entry : environment) {
    if (absl::StartsWith(entry, prefix)) return entry.substr(prefix.size());
  }
  return "";
}

RankFiles NameRankFiles(const std::string& run_folder,
                        const std::string& socket, const v1::World& world,
                        const v1::WorldCommit& world_commit,
                        uint32_t node_rank) {
  CHECK(node_rank < static_cast<uint32_t>(world.members_size()));
  RankFiles files;
  files.folder = absl::StrCat(run_folder, "/gen-", world.generation());
  files.world_file = files.folder + "/world.json";
  if (world_commit.nccl_ids_size() > 0)
    files.nccl_id_file = files.folder + "/nccl-ids";
  files.hostfile = files.folder + "/hostfile";
  files.notice_file = files.folder + "/notice";
  files.socket = socket;
  for (uint32_t i = 0; i < world.members(node_rank).ranks(); ++i) {
    files.progress_files.push_back(absl::StrCat(files.folder, "/progress-", i));
    files.error_files.push_back(
        absl::StrCat(files.folder, "/error-", i, ".json"));
  }
  return files;
}

absl::Status WriteRankFiles(const RankFiles& files, const v1::World& world,
                            const v1::WorldCommit& world_commit,
                            const SystemUser* user) {
  // Acts as `user`, because ranks may have put links into the folder that root
  // must not follow.
  const AsUser as(user);
  if (!as.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(files.folder, ": cannot act as ", UserText(*user)));
  }
  absl::Status status = WriteFileAtomically(
      files.world_file, WorldJson(world, world_commit), 0644);
  status.Update(WriteFileAtomically(files.hostfile, HostfileText(world), 0644));
  if (!files.nccl_id_file.empty()) {
    status.Update(WriteFileAtomically(files.nccl_id_file,
                                      NcclIdText(world_commit), 0600));
  }
  return status;
}

std::vector<std::string> CleanEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network) {
  std::vector<std::string> environment;
  for (const std::string& entry : inherited) {
    const bool is_variable =
        entry.find('=') != std::string::npos && entry[0] != '=';
    if (is_variable && !IsLeftover(NameOf(entry))) environment.push_back(entry);
  }
  for (const auto& [name, value] : network.job_variables) {
    std::erase_if(environment, [&name = name](const std::string& entry) {
      return NameOf(entry) == name;
    });
    Set(environment, name, value);
  }
  return environment;
}

std::vector<std::string> SetupEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const std::string& job, const std::string& node,
    const std::string& socket) {
  std::vector<std::string> env = CleanEnvironment(inherited, network);
  Set(env, "ROLLCALL_JOB", job);
  Set(env, "ROLLCALL_NODE", node);
  const std::string attempt = VariableIn(inherited, kAttemptVariable);
  Set(env, kAttemptVariable, attempt.empty() ? "0" : attempt);
  Set(env, "ROLLCALL_SOCKET", socket);
  return env;
}

std::vector<std::string> CommandEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const v1::World& world, uint32_t node_rank) {
  CHECK(node_rank < static_cast<uint32_t>(world.members_size()));
  std::vector<std::string> environment = CleanEnvironment(inherited, network);
  const NetworkSettings settings =
      SettingsFor(world, node_rank, environment, network);
  for (const auto& [name, value] : settings.variables) {
    // The user's entry, which is empty, would be found first.
    std::erase_if(environment, [&name = name](const std::string& entry) {
      return NameOf(entry) == name;
    });
    Set(environment, name, value);
  }
  return environment;
}

std::vector<std::string> RankEnvironment(
    const std::vector<std::string>& inherited, const NetworkOptions& network,
    const RankFiles& files, const v1::World& world,
    const v1::WorldCommit& world_commit, uint32_t node_rank,
    uint32_t local_rank) {
  std::vector<std::string> env =
      CommandEnvironment(inherited, network, world, node_rank);
  const v1::Member& member = world.members(node_rank);
  CHECK(local_rank < files.progress_files.size());
  CHECK(local_rank < files.error_files.size());
  const uint32_t rank = member.first_rank() + local_rank;

  Set(env, "RANK", rank);
  Set(env, "LOCAL_RANK", local_rank);
  Set(env, "WORLD_SIZE", world.world_size());
  Set(env, "LOCAL_WORLD_SIZE", member.ranks());
  Set(env, "GROUP_RANK", node_rank);
  Set(env, "GROUP_WORLD_SIZE", world.members_size());
  Set(env, "ROLE_RANK", rank);
  Set(env, "ROLE_WORLD_SIZE", world.world_size());
  Set(env, "ROLE_NAME", "default");
  Set(env, "NODE_RANK", node_rank);
  Set(env, "NNODES", world.members_size());
  Set(env, "MASTER_ADDR", world_commit.master_address());
  Set(env, "MASTER_PORT", world_commit.master_port());
  Set(env, "TORCHELASTIC_RUN_ID", world.job());  // torchrun's --rdzv-id.
  Set(env, "TORCHELASTIC_RESTART_COUNT", world.restarts_charged());
  Set(env, "TORCHELASTIC_MAX_RESTARTS", world.max_restarts());
  Set(env, "TORCHELASTIC_ERROR_FILE", files.error_files[local_rank]);
  // Rank 0 itself listens on MASTER_PORT, because the agent runs no store.
  Set(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
  // Several ranks that each use all cores are slower than with one thread each.
  if (member.ranks() > 1 && !Has(env, "OMP_NUM_THREADS")) {
    Set(env, "OMP_NUM_THREADS", 1);
  }

  Set(env, "ROLLCALL_JOB", world.job());
  Set(env, "ROLLCALL_RUN", world.run());
  Set(env, "ROLLCALL_NODE", member.node());
  Set(env, "ROLLCALL_GENERATION", world.generation());
  const std::string attempt = VariableIn(inherited, kAttemptVariable);
  Set(env, kAttemptVariable, attempt.empty() ? "0" : attempt);
  Set(env, "ROLLCALL_WORLD_FILE", files.world_file);
  if (!files.nccl_id_file.empty()) {
    Set(env, "ROLLCALL_NCCL_ID_FILE", files.nccl_id_file);
  }
  Set(env, "ROLLCALL_HOSTFILE", files.hostfile);
  Set(env, "ROLLCALL_PROGRESS", files.progress_files[local_rank]);
  Set(env, "ROLLCALL_NOTICE", files.notice_file);
  Set(env, "ROLLCALL_SOCKET", files.socket);
  return env;
}

}  // namespace rollcall
