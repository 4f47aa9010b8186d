#include "client/cli/run_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/admin/addresses.h"
#include "client/cli/flags/argv.h"
#include "client/cli/flags/command_words.h"
#include "client/launch/launch.h"
#include "client/launch/platform/platform.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// The job's name on a platform that gives none.
constexpr char kJobDefault[] = "run";

constexpr char kExplain[] = "; `rollcall detect --explain` shows what is known";

absl::StatusOr<int> ReadPort(const std::string& text) {
  int port = 0;
  if (absl::SimpleAtoi(text, &port) && port >= 1 && port <= 65535) return port;
  return absl::InvalidArgumentError(
      absl::StrCat("--master-port: expected 1 to 65535, got '", text, "'"));
}

// Reads HOST or HOST:PORT, and the port of --master-port, which torchrun's
// users give separately.
absl::StatusOr<HostPort> ReadEndpoint(const std::string& text,
                                      const std::string& port_text) {
  int port = kKnownPort;
  if (!port_text.empty()) {
    const auto read = ReadPort(port_text);
    if (!read.ok()) return read.status();
    port = *read;
  }
  if (text.empty()) return HostPort{"", port};
  auto whole = ParseHostPort(text);
  if (whole.ok()) return whole;
  // A host without a port; it may be an IPv6 address.
  auto host = ParseHostPort(FormatHostPort({text, port}));
  return host.ok() ? host : whole;
}

absl::StatusOr<Evidence> FromFlags(const RunFlags& flags,
                                   const HostPort& endpoint) {
  Evidence evidence;
  if (!flags.node_rank.empty()) {
    uint32_t rank = 0;
    if (!absl::SimpleAtoi(flags.node_rank, &rank) ||
        rank >= Limits::nodes_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("--node-rank: expected 0 to ", Limits::nodes_max - 1,
                       ", got '", flags.node_rank, "'"));
    }
    evidence.node_rank = {rank, From("--node-rank", flags.node_rank)};
  }
  if (!flags.nodes.empty()) {
    evidence.nodes = {flags.nodes, From("--nodes", flags.nodes)};
  }
  if (!endpoint.host.empty()) {
    evidence.launcher = {endpoint.host, From("--endpoint", flags.endpoint)};
  }
  if (!flags.nproc_per_node.empty()) {
    evidence.ranks = {flags.nproc_per_node,
                      From("--nproc-per-node", flags.nproc_per_node)};
  }
  if (!flags.launch.job.empty()) {
    evidence.job = {flags.launch.job, From("--job", flags.launch.job)};
  }
  return evidence;
}

bool HasSecret(const LaunchFlags& flags) {
  return !flags.secret_file.empty() || !flags.given.secret.empty();
}

absl::Status NeedsSecret() {
  return absl::InvalidArgumentError(
      "a run on several nodes needs a secret that all of them have in advance: "
      "make one with `rollcall token secret`, and give it to every node as "
      "--secret-file FILE or in ROLLCALL_SECRET");
}

absl::Status PlaceUnknown(const Platform& platform) {
  return absl::InvalidArgumentError(absl::StrCat(
      platform.place.nodes.from,
      " means several nodes, and nothing says which one this is: give "
      "--node-rank N or ROLLCALL_NODE_RANK, 0 on one node, which then "
      "launches",
      kExplain));
}

std::string Notice(const Platform& platform, const std::string& what) {
  const std::vector<std::string> because = Because(platform);
  return absl::StrCat(
      what,
      platform.names.empty()
          ? ""
          : absl::StrCat(" (platform ", absl::StrJoin(platform.names, ", "),
                         ")"),
      because.empty() ? "" : ": ", absl::StrJoin(because, "; "));
}

// Sets the number of ranks from the platform, with the same check as for the
// flag.
absl::Status SetRanks(const Platform& platform, LaunchFlags& to) {
  const Known<std::string>& ranks = platform.place.ranks;
  if (!ranks.known()) return absl::OkStatus();
  uint32_t count = 0;
  if (ranks.value != "auto" &&
      (!absl::SimpleAtoi(ranks.value, &count) || count < 1 ||
       count > Limits::ranks_per_node_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat(ranks.from, ": expected 1 to ", Limits::ranks_per_node_max,
                     " ranks per node, or auto; give --nproc-per-node"));
  }
  to.local.nproc_per_node = ranks.value;
  absl::Status starts =
      CheckRankStarter(to.command, ranks.value, to.local.once);
  if (starts.ok()) return starts;
  return absl::InvalidArgumentError(
      absl::StrCat(starts.message(), " (", ranks.from, ")"));
}

absl::StatusOr<NodeCount> ReadNodes(const Known<std::string>& nodes) {
  auto read = ParseNodes(nodes.value);
  if (read.ok()) return read;
  return absl::InvalidArgumentError(
      absl::StrCat(nodes.from, ": ", read.status().message()));
}

absl::Status SetNodes(const Platform& platform, LaunchFlags& to) {
  const Known<std::string>& nodes = platform.place.nodes;
  NodeCount count{1, 1};
  if (nodes.known()) {
    const auto read = ReadNodes(nodes);
    if (!read.ok()) return read.status();
    count = *read;
  } else if (platform.role != PlatformRole::kAlone) {
    return absl::InvalidArgumentError(
        absl::StrCat("how many nodes? This platform does not say; give "
                     "--nodes N or ROLLCALL_NODES",
                     kExplain));
  }
  to.settings.set_nodes_min(count.min);
  to.settings.set_nodes_max(count.max);
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> PlanLaunch(const Platform& platform, LaunchFlags launch,
                                   int port) {
  if (absl::Status set = SetNodes(platform, launch); !set.ok()) return set;
  if (launch.settings.nodes_max() > 1) {
    // With a worker template, each worker may get a join string instead of the
    // secret.
    if (!HasSecret(launch) && launch.worker_template.empty()) {
      return NeedsSecret();
    }
    launch.listen = absl::StrCat("[::]:", port);
    launch.join_line = false;
  }
  std::string notice = Notice(platform, platform.role == PlatformRole::kAlone
                                            ? "this node runs alone"
                                            : "this node launches");
  return RunPlan{std::move(launch), std::move(notice)};
}

absl::StatusOr<RunPlan> PlanJoin(const Platform& platform, LaunchFlags launch,
                                 const RunFlags& flags, int port) {
  // The launcher checks the number of nodes too, but a worker reports the error
  // on its own node.
  if (const Known<std::string>& nodes = platform.place.nodes; nodes.known()) {
    if (auto read = ReadNodes(nodes); !read.ok()) return read.status();
  }
  JoinFlags join;
  join.local = std::move(launch.local);
  join.command = std::move(launch.command);
  join.settings = std::move(launch.settings);
  // `--env NAME` is for the launcher's own value, which this node does not
  // have.
  auto& variables = *join.settings.mutable_environment();
  variables.erase(std::remove_if(variables.begin(), variables.end(),
                                 [](const v1::JobVariable& each) {
                                   return each.value().empty();
                                 }),
                  variables.end());
  join.join_timeout = flags.join_timeout;
  join.where.given = launch.given;
  if (!launch.given.join.empty()) {
    return RunPlan{std::move(join),
                   Notice(platform, "this node joins by ROLLCALL_JOIN")};
  }
  const Known<std::string>& launcher = platform.place.launcher;
  if (!launcher.known()) {
    return absl::InvalidArgumentError(
        absl::StrCat("where is the launcher? This platform does not say; give "
                     "--endpoint HOST or ROLLCALL_LAUNCHER",
                     kExplain));
  }
  if (!HasSecret(launch)) return NeedsSecret();
  join.where.endpoint = FormatHostPort({launcher.value, port});
  join.where.job = std::move(launch.job);
  join.where.secret_file = launch.secret_file;
  std::string notice =
      Notice(platform, absl::StrCat("this node joins ", join.where.endpoint));
  return RunPlan{std::move(join), std::move(notice)};
}

}  // namespace

absl::StatusOr<RunPlan> PlanRun(const RunFlags& flags,
                                const NodeEnvironment& environment) {
  const auto endpoint = ReadEndpoint(flags.endpoint, flags.port);
  if (!endpoint.ok()) return endpoint.status();
  const auto given = FromFlags(flags, *endpoint);
  if (!given.ok()) return given.status();
  const auto platform = DetectPlatform(environment, *given);
  if (!platform.ok()) return platform.status();
  if (!platform->place.obstacle.empty()) {
    return absl::InvalidArgumentError(platform->place.obstacle);
  }
  if (platform->role == PlatformRole::kUnknown) return PlaceUnknown(*platform);
  LaunchFlags launch = flags.launch;
  if (absl::Status set = SetRanks(*platform, launch); !set.ok()) return set;
  if (platform->place.job.known()) {
    launch.job = platform->place.job.value;
  } else if (platform->role != PlatformRole::kAlone) {
    launch.job = kJobDefault;
  }
  return platform->role == PlatformRole::kWorker
             ? PlanJoin(*platform, std::move(launch), flags, endpoint->port)
             : PlanLaunch(*platform, std::move(launch), endpoint->port);
}

}  // namespace rollcall
