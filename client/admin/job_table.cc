#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/admin/event_text.h"
#include "client/admin/job_text.h"
#include "daemon/base/counted.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/bytes_text.h"

namespace rollcall {
namespace {

// Members by node rank, then the other nodes by name.
std::vector<v1::NodeStatus> ByNodeRank(const v1::JobStatus& status) {
  std::vector<v1::NodeStatus> nodes(status.nodes().begin(),
                                    status.nodes().end());
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const v1::NodeStatus& a, const v1::NodeStatus& b) {
                     return static_cast<uint32_t>(a.node_rank()) <
                            static_cast<uint32_t>(b.node_rank());
                   });
  return nodes;
}

// `step 1200  loss 1.5312  23450 tokens/s  norm 0.52  validation 1.6012  mfu
// 41.2%  memory 1.2 GiB`, or the parts of it that are known.
std::string PaceText(const v1::JobStatus& status) {
  std::string text = absl::StrCat("step ", status.step());
  if (status.has_pace()) {
    absl::StrAppendFormat(&text, "  loss %.4f  %.0f tokens/s",
                          status.pace().loss(),
                          status.pace().tokens_per_second());
  }
  const v1::Pace& pace = status.pace();
  if (pace.has_gradient_norm()) {
    absl::StrAppendFormat(&text, "  norm %.3g", pace.gradient_norm());
  }
  if (pace.has_validation_loss()) {
    absl::StrAppendFormat(&text, "  validation %.4f", pace.validation_loss());
  }
  if (pace.has_flops_utilization()) {
    absl::StrAppendFormat(&text, "  mfu %.1f%%",
                          100 * pace.flops_utilization());
  }
  if (pace.memory_bytes() > 0) {
    absl::StrAppend(&text, "  memory ", BytesText(pace.memory_bytes()));
  }
  return text;
}

// A matrix of more nodes does not fit a terminal.
constexpr int kPingNodesInMatrix = 16;
constexpr int kPingsListed = 8;
constexpr size_t kChangesListed = 8;

std::string PingCell(const v1::Ping& ping) {
  if (!ping.reached()) return "none";
  return ping.has_round_trip()
             ? absl::StrFormat("%.2f", absl::ToDoubleMilliseconds(
                                           FromProto(ping.round_trip())))
             : "?";
}

// One row per probing node, one column per probed node.
std::string PingMatrix(const v1::Pings& pings) {
  const int count = pings.nodes_size();
  std::map<std::pair<uint32_t, uint32_t>, std::string> cells;
  for (const v1::Ping& ping : pings.pings()) {
    cells[{ping.from(), ping.to()}] = PingCell(ping);
  }
  size_t width = 4;
  for (const std::string& node : pings.nodes()) {
    width = std::max(width, node.size());
  }
  std::string text =
      absl::StrFormat("%9s  %-*s", "", static_cast<int>(width), "");
  for (int to = 0; to < count; ++to) absl::StrAppendFormat(&text, " %7d", to);
  text += '\n';
  for (int from = 0; from < count; ++from) {
    absl::StrAppendFormat(&text, "%-9d  %-*s", from, static_cast<int>(width),
                          pings.nodes(from));
    for (int to = 0; to < count; ++to) {
      const auto cell = cells.find({from, to});
      absl::StrAppendFormat(&text, " %7s",
                            cell == cells.end() ? "-" : cell->second);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string DifferencesTable(const v1::JobStatus& status) {
  std::string text;
  for (const v1::Difference& difference : status.differences()) {
    absl::StrAppend(&text, "nodes differ in ", difference.fact(), " (",
                    difference.advice(), "):\n");
    size_t width = 0;
    for (const v1::DifferenceSide& side : difference.sides()) {
      width = std::max(width, side.value().size());
    }
    for (const v1::DifferenceSide& side : difference.sides()) {
      const uint32_t more =
          side.node_count() - static_cast<uint32_t>(side.nodes_size());
      absl::StrAppendFormat(
          &text, "  %-*s  %s%s\n", static_cast<int>(width), side.value(),
          absl::StrJoin(side.nodes(), ", "),
          more > 0 ? absl::StrCat(" and ", more, " more") : "");
    }
    if (static_cast<int>(difference.side_count()) > difference.sides_size()) {
      absl::StrAppend(
          &text, "  and ",
          static_cast<int>(difference.side_count()) - difference.sides_size(),
          " other values\n");
    }
  }
  return text;
}

std::string PingsTable(const v1::Pings& pings) {
  if (pings.pairs() == 0) {
    return "pings: no nodes have probed each other (all are on one "
           "machine, or the\ndaemon was started again since)\n";
  }
  std::string text = absl::StrFormat(
      "connecting took, in ms, probed %.0f s ago, %s of %s not reached:\n",
      absl::ToDoubleSeconds(FromProto(pings.age())),
      absl::StrCat(pings.unreached()), Counted(pings.pairs(), "pair"));
  const bool matrix = pings.nodes_size() <= kPingNodesInMatrix;
  if (matrix) text += PingMatrix(pings);
  const auto name = [&](uint32_t rank) {
    return static_cast<int>(rank) < pings.nodes_size()
               ? pings.nodes(static_cast<int>(rank))
               : absl::StrCat("node rank ", rank);
  };
  int listed = 0;
  for (const v1::Ping& ping : pings.pings()) {
    if ((matrix && ping.reached()) || listed == kPingsListed) break;
    ++listed;
    absl::StrAppend(
        &text, "  ", name(ping.from()),
        ping.reached()
            ? absl::StrCat(" reaches ", name(ping.to()), " in ", PingCell(ping),
                           " ms")
            : absl::StrCat(" does not reach ", name(ping.to()), " (",
                           ping.error().empty() ? "no answer" : ping.error(),
                           ")"),
        "\n");
  }
  return text;
}

std::string ChangesTable(const v1::JobStatus& status) {
  std::vector<std::pair<absl::Duration, std::string>> latest;
  uint64_t more = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::NodeChange& change : node.changes()) {
      latest.emplace_back(
          FromProto(change.age()),
          absl::StrCat(node.node(), ": ", ChangeText(change.change())));
    }
    more += node.changes_dropped();
  }
  std::stable_sort(
      latest.begin(), latest.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  if (latest.size() > kChangesListed) {
    more += latest.size() - kChangesListed;
    latest.resize(kChangesListed);
  }
  std::string text;
  for (const auto& [age, change] : latest) {
    absl::StrAppend(&text, "changed ", ShortDuration(age), " ago: ", change,
                    "\n");
  }
  if (more > 0) {
    absl::StrAppend(&text, "changed: ", more,
                    " more; --json has the latest of each node\n");
  }
  return text;
}

std::string StatusTable(const v1::JobStatus& status) {
  const std::string wanted =
      status.nodes_min() == status.nodes_max()
          ? absl::StrCat(status.nodes_max())
          : absl::StrCat(status.nodes_min(), ":", status.nodes_max());
  std::string text = absl::StrFormat(
      "job %s  %s  generation %d  world size %d  nodes %s\n", status.job(),
      Word(status.state()), status.generation(), status.world_size(), wanted);
  if (status.step() > 0) {
    absl::StrAppend(&text, PaceText(status), "\n");
  }
  if (status.has_resumed()) {
    absl::StrAppend(&text, ResumedText(status), "\n");
  }
  if (status.has_slow()) {
    absl::StrAppendFormat(
        &text, "slow: a step takes %.3g s, and took %.3g s before%s\n",
        absl::ToDoubleSeconds(FromProto(status.slow().step())),
        absl::ToDoubleSeconds(FromProto(status.slow().median())),
        status.slow().changed().empty()
            ? ""
            : absl::StrCat("; changes before: ", status.slow().changed()));
  }
  size_t width = 4;
  for (const auto& node : status.nodes()) {
    width = std::max(width, node.node().size());
  }
  absl::StrAppendFormat(&text, "%-9s  %-*s  %-11s  %-5s  %-8s  %-8s  %s\n",
                        "NODE RANK", static_cast<int>(width), "NODE", "STATE",
                        "RANKS", "STEP", "LEASE", "ADDRESS");
  for (const auto& node : ByNodeRank(status)) {
    const std::string rank =
        node.node_rank() < 0 ? "-" : absl::StrCat(node.node_rank());
    absl::StrAppendFormat(&text, "%-9s  %-*s  %-11s  %-5d  %-8d  %-8s  %s",
                          rank, static_cast<int>(width), node.node(),
                          Word(node.state()), node.ranks(), node.step(),
                          absl::StrFormat("%.1f s", node.lease_ms() / 1000.0),
                          node.address());
    if (!node.reason().empty()) absl::StrAppend(&text, "  ", node.reason());
    text += '\n';
  }
  if (status.missing_count() > 0 || status.missing_size() > 0) {
    absl::StrAppend(&text, WaitingText(status), "\n");
  }
  for (const std::string& awaited :
       {UnpreparedText(status), StragglersText(status)}) {
    if (!awaited.empty()) absl::StrAppend(&text, awaited, "\n");
  }
  if (status.has_last_reform() && status.last_reform().generation() > 1) {
    absl::StrAppend(&text, ReformText(status), "\n");
  }
  if (status.has_fence()) {
    absl::StrAppend(&text, "waits: ", status.fence_reason(), "\n");
  }
  absl::StrAppend(&text, DifferencesTable(status), ChangesTable(status));
  if (status.has_pings()) absl::StrAppend(&text, PingsTable(status.pings()));
  if (status.has_root_cause()) {
    absl::StrAppend(&text, "cause: ", CauseText(status.root_cause()), "\n");
  }
  if (status.has_exit_code()) {
    absl::StrAppend(&text, "ended: ", status.end_reason(), " (exit code ",
                    status.exit_code(), ")\n");
  }
  if (status.has_lingers()) {
    absl::StrAppend(&text, LeftAliveText(status), " are kept for another ",
                    ShortDuration(FromProto(status.lingers())),
                    "; `rollcall stop --job ", status.job(),
                    "` ends them at once\n");
  }
  std::vector<std::string> refused;
  for (const auto& [code, count] : std::map<std::string, uint64_t>(
           status.refused().begin(), status.refused().end())) {
    refused.push_back(absl::StrCat(count, " ", code));
  }
  if (!refused.empty()) {
    absl::StrAppend(&text, "refused: ", absl::StrJoin(refused, ", "), "\n");
  }
  if (const std::string failed = FailedText(status); !failed.empty()) {
    absl::StrAppend(&text, failed, "\n");
  }
  return text;
}

}  // namespace rollcall
