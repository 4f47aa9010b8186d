#include "client/launch/platform/platform.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/launch/platform/detectors.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

template <typename T>
void Fill(const Known<T>& from, Known<T>& to) {
  if (!to.known()) to = from;
}

void FillAll(const Evidence& from, Evidence& to) {
  Fill(from.node_rank, to.node_rank);
  Fill(from.launches, to.launches);
  Fill(from.nodes, to.nodes);
  Fill(from.launcher, to.launcher);
  Fill(from.address, to.address);
  Fill(from.ranks, to.ranks);
  Fill(from.job, to.job);
  Fill(from.attempt, to.attempt);
  if (to.obstacle.empty()) to.obstacle = from.obstacle;
}

// MAX of "MIN:MAX". Only MAX is compared, because one platform may name a range
// and another only its end.
std::string MaxOf(const std::string& nodes) {
  return nodes.substr(nodes.rfind(':') + 1);
}

absl::Status Contradiction(const char* what, const std::string& one,
                           const std::string& other, const char* give) {
  return absl::InvalidArgumentError(
      absl::StrCat("two platforms contradict each other about ", what, ": ",
                   one, " and ", other, "; say which is right with ", give));
}

// `decided`: the evidence of flags and ROLLCALL_* variables.
absl::Status CheckAgreement(const std::vector<Evidence>& all,
                            const Evidence& decided) {
  Known<uint32_t> rank;
  Known<std::string> nodes;
  for (const Evidence& one : all) {
    const Known<uint32_t>& its_rank = one.node_rank;
    if (!decided.node_rank.known() && rank.known() && its_rank.known() &&
        rank.value != its_rank.value) {
      return Contradiction("this node's rank", rank.from, its_rank.from,
                           "--node-rank or ROLLCALL_NODE_RANK");
    }
    if (!decided.nodes.known() && nodes.known() && one.nodes.known() &&
        MaxOf(nodes.value) != MaxOf(one.nodes.value)) {
      return Contradiction("the number of nodes", nodes.from, one.nodes.from,
                           "--nodes or ROLLCALL_NODES");
    }
    Fill(its_rank, rank);
    Fill(one.nodes, nodes);
  }
  return absl::OkStatus();
}

PlatformRole RoleOf(const Evidence& place) {
  uint32_t nodes = 0;
  const bool one_node =
      !place.nodes.known() ||
      (absl::SimpleAtoi(MaxOf(place.nodes.value), &nodes) && nodes == 1);
  if (place.node_rank.known()) {
    if (place.node_rank.value != 0) return PlatformRole::kWorker;
    return place.nodes.known() && one_node ? PlatformRole::kAlone
                                           : PlatformRole::kLauncher;
  }
  if (place.launches.known()) {
    return place.launches.value ? PlatformRole::kLauncher
                                : PlatformRole::kWorker;
  }
  return one_node ? PlatformRole::kAlone : PlatformRole::kUnknown;
}

absl::Status CheckNodes(const Known<std::string>& nodes) {
  if (!nodes.known()) return absl::OkStatus();
  const std::string least = nodes.value.substr(0, nodes.value.find(':'));
  uint32_t min = 0;
  uint32_t max = 0;
  if (absl::SimpleAtoi(least, &min) &&
      absl::SimpleAtoi(MaxOf(nodes.value), &max) && min >= 1 && min <= max &&
      max <= Limits::nodes_max &&
      (nodes.value == least ||
       nodes.value == absl::StrCat(least, ":", MaxOf(nodes.value)))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      nodes.from, ": expected a number of nodes from 1 to ", Limits::nodes_max,
      ", or MIN:MAX; correct it, or give --nodes"));
}

absl::Status CheckRank(const Evidence& place) {
  uint32_t nodes = 0;
  if (!place.node_rank.known() || !place.nodes.known() ||
      !absl::SimpleAtoi(MaxOf(place.nodes.value), &nodes) ||
      place.node_rank.value < nodes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      place.node_rank.from, " does not fit ", place.nodes.from,
      ": node ranks count from 0 to ", nodes == 0 ? 0 : nodes - 1));
}

}  // namespace

const char* Name(PlatformRole role) {
  switch (role) {
    case PlatformRole::kAlone:
      return "alone";
    case PlatformRole::kLauncher:
      return "launcher";
    case PlatformRole::kWorker:
      return "worker";
    case PlatformRole::kUnknown:
      return "unknown";
  }
  return "unknown";
}

absl::StatusOr<Platform> DetectPlatform(const NodeEnvironment& environment,
                                        const Evidence& flags) {
  const auto all = DetectAll(environment);
  if (!all.ok()) return all.status();
  const auto own = OwnVariables(environment);
  if (!own.ok()) return own.status();
  Platform platform;
  platform.place = flags;
  FillAll(*own, platform.place);
  absl::Status agree = CheckAgreement(*all, platform.place);
  if (!agree.ok()) return agree;
  const bool placed = platform.place.node_rank.known();
  for (const Evidence& one : *all) {
    platform.names.push_back(one.platform);
    FillAll(one, platform.place);
  }
  if (placed) platform.place.obstacle.clear();
  platform.role = RoleOf(platform.place);
  absl::Status fits = CheckNodes(platform.place.nodes);
  fits.Update(CheckRank(platform.place));
  if (!fits.ok()) return fits;
  return platform;
}

absl::StatusOr<Known<uint32_t>> DetectAttempt(
    const NodeEnvironment& environment) {
  Evidence own;
  absl::Status read =
      TakeVariables(environment, {.attempt = "ROLLCALL_ATTEMPT"}, own);
  if (!read.ok()) return read;
  if (own.attempt.known()) return own.attempt;
  const auto all = DetectAll(environment);
  if (!all.ok()) return Known<uint32_t>();
  for (const Evidence& one : *all) {
    if (one.attempt.known()) return one.attempt;
  }
  return Known<uint32_t>();
}

std::vector<std::string> Because(const Platform& platform) {
  std::vector<std::string> lines;
  const auto add = [&lines](const char* what, const auto& known) {
    if (!known.known()) return;
    lines.push_back(absl::StrCat(what, " ", known.value, ": ", known.from));
  };
  const Evidence& place = platform.place;
  add("node_rank", place.node_rank);
  if (place.launches.known()) {
    lines.push_back(
        absl::StrCat("role ", Name(platform.role), ": ", place.launches.from));
  }
  add("nodes", place.nodes);
  add("launcher", place.launcher);
  add("address", place.address);
  add("ranks", place.ranks);
  add("job", place.job);
  add("attempt", place.attempt);
  return lines;
}

}  // namespace rollcall
