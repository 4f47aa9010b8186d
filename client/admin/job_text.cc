#include "client/admin/job_text.h"

#include <string.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/base/durations.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

// How many names fit in one readable line.
constexpr size_t kNamesShown = 8;

std::string Lower(const std::string& name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string Names(const std::vector<std::string>& names) {
  if (names.size() <= kNamesShown) return absl::StrJoin(names, ", ");
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + kNamesShown, ", "), " and ",
      names.size() - kNamesShown, " more");
}

std::string Counted(uint64_t count, absl::string_view thing) {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
}

std::string Cause(const v1::RootCause& cause) {
  const std::string rank =
      absl::StrCat("rank ", cause.rank(), " on ", cause.node());
  switch (cause.code()) {
    case v1::REASON_CODE_RANK_EXIT:
    case v1::REASON_CODE_RANK_COMMUNICATION:
      return absl::StrCat(rank, " exited with code ", cause.value());
    case v1::REASON_CODE_NOT_STARTED:
      return absl::StrCat(rank, " could not be started (code ", cause.value(),
                          ")");
    case v1::REASON_CODE_RANK_SIGNAL: {
      const char* name = sigabbrev_np(cause.value());
      return absl::StrCat(
          rank, " was ended by signal ", cause.value(),
          name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"));
    }
    case v1::REASON_CODE_HANG:
      return absl::StrCat(cause.rank() < 0
                              ? "no rank made progress"
                              : absl::StrCat(rank, " made no progress"),
                          cause.detail().empty() ? "" : ": ", cause.detail());
    default:
      return cause.detail().empty()
                 ? absl::StrCat("node ", cause.node(), ": ", Word(cause.code()))
                 : absl::StrCat("node ", cause.node(), ": ", cause.detail());
  }
}

ordered_json NodeJson(const v1::NodeStatus& node) {
  return {{"node", node.node()},           {"state", Word(node.state())},
          {"node_rank", node.node_rank()}, {"incarnation", node.incarnation()},
          {"address", node.address()},     {"lease_ms", node.lease_ms()},
          {"ranks", node.ranks()},         {"step", node.step()},
          {"reason", node.reason()}};
}

ordered_json DifferenceJson(const v1::Difference& difference) {
  ordered_json json = {{"fact", difference.fact()},
                       {"sides", ordered_json::array()},
                       {"side_count", difference.side_count()},
                       {"advice", difference.advice()}};
  for (const v1::DifferenceSide& side : difference.sides()) {
    ordered_json nodes = ordered_json::array();
    for (const std::string& node : side.nodes()) nodes.push_back(node);
    json["sides"].push_back({{"value", side.value()},
                             {"nodes", nodes},
                             {"node_count", side.node_count()}});
  }
  return json;
}

// 210 microseconds give 0.21.
double Milliseconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) * 1e3 +
         static_cast<double>(duration.nanos()) / 1e6;
}

ordered_json PingsJson(const v1::Pings& pings) {
  ordered_json json = {{"age_s", Milliseconds(pings.age()) / 1e3},
                       {"pairs", pings.pairs()},
                       {"unreached", pings.unreached()},
                       {"pings", ordered_json::array()}};
  for (const v1::Ping& ping : pings.pings()) {
    ordered_json one = {{"from", ping.from()},
                        {"to", ping.to()},
                        {"reached", ping.reached()},
                        {"ms", nullptr},
                        {"error", ping.error()}};
    if (ping.has_round_trip()) one["ms"] = Milliseconds(ping.round_trip());
    json["pings"].push_back(std::move(one));
  }
  return json;
}

absl::Duration Waited(const v1::JobStatus& status) {
  return absl::Seconds(status.waited().seconds()) +
         absl::Nanoseconds(status.waited().nanos());
}

}  // namespace

std::string Word(v1::ReasonCode code) {
  return Lower(v1::ReasonCode_Name(code), "REASON_CODE_");
}
std::string Word(v1::JobState state) {
  return Lower(v1::JobState_Name(state), "JOB_STATE_");
}
std::string Word(v1::NodeState state) {
  return Lower(v1::NodeState_Name(state), "NODE_STATE_");
}

ordered_json StatusJson(const v1::JobStatus& status) {
  ordered_json json = {{"job", status.job()},
                       {"run", status.run()},
                       {"state", Word(status.state())},
                       {"generation", status.generation()},
                       {"world_size", status.world_size()},
                       {"nodes_min", status.nodes_min()},
                       {"nodes_max", status.nodes_max()}};
  json["nodes"] = ordered_json::array();
  for (const auto& node : status.nodes())
    json["nodes"].push_back(NodeJson(node));
  json["missing"] = ordered_json::array();
  for (const auto& name : status.missing()) json["missing"].push_back(name);
  json["last_reform"] = nullptr;
  if (status.has_last_reform()) {
    const v1::Reform& reform = status.last_reform();
    json["last_reform"] = {{"generation", reform.generation()},
                           {"code", Word(reform.code())},
                           {"reason", reform.reason()}};
  }
  json["root_cause"] = nullptr;
  if (status.has_root_cause()) {
    const v1::RootCause& cause = status.root_cause();
    json["root_cause"] = {
        {"node", cause.node()},
        {"rank", cause.rank()},
        {"code", Word(cause.code())},
        {"detail", cause.detail().empty() ? Cause(cause) : cause.detail()}};
  }
  json["differences"] = ordered_json::array();
  for (const v1::Difference& difference : status.differences()) {
    json["differences"].push_back(DifferenceJson(difference));
  }
  if (status.has_pings()) json["pings"] = PingsJson(status.pings());
  json["waited_s"] = absl::ToDoubleSeconds(Waited(status));
  json["step"] = status.step();
  json["loss"] = nullptr;
  json["tokens_per_second"] = nullptr;
  if (status.has_pace()) {
    json["loss"] = status.pace().loss();
    json["tokens_per_second"] = status.pace().tokens_per_second();
  }
  // Sorted by code, so that the order is stable.
  const std::map<std::string, uint64_t> refused(status.refused().begin(),
                                                status.refused().end());
  if (status.has_lingers()) {
    json["lingers_s"] = absl::ToDoubleSeconds(FromProto(status.lingers()));
  }
  if (status.has_fence()) {
    json["fence_s"] = absl::ToDoubleSeconds(FromProto(status.fence()));
    json["fence_reason"] = status.fence_reason();
  }
  json["refused"] = ordered_json::object();
  for (const auto& [code, count] : refused) json["refused"][code] = count;
  json["strangers"] = {{"silent", status.strangers().silent()},
                       {"garbage", status.strangers().garbage()},
                       {"crowded", status.strangers().crowded()},
                       {"unknown", status.strangers().unknown()},
                       {"hung_up", status.strangers().hung_up()}};
  return json;
}

std::string OneLine(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

namespace {

// Members by node rank, then all others by name.
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

}  // namespace

namespace {

// `step 1200  loss 1.5312  23450 tokens/s`, or the known part of it.
std::string PaceText(const v1::JobStatus& status) {
  std::string text = absl::StrCat("step ", status.step());
  if (status.has_pace()) {
    absl::StrAppendFormat(&text, "  loss %.4f  %.0f tokens/s",
                          status.pace().loss(),
                          status.pace().tokens_per_second());
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

namespace {

// Wider matrices do not fit a terminal.
constexpr int kPingNodesInMatrix = 16;
constexpr int kPingsListed = 8;

std::string PingCell(const v1::Ping& ping) {
  if (!ping.reached()) return "none";
  return ping.has_round_trip()
             ? absl::StrFormat("%.2f", Milliseconds(ping.round_trip()))
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

std::string PingsTable(const v1::Pings& pings) {
  if (pings.pairs() == 0) {
    return "pings: no nodes have probed each other (all are on one "
           "machine, or the\ndaemon was started again since)\n";
  }
  std::string text = absl::StrFormat(
      "connecting took, in ms, probed %.0f s ago, %s of %s not reached:\n",
      Milliseconds(pings.age()) / 1e3, absl::StrCat(pings.unreached()),
      Counted(pings.pairs(), "pair"));
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
  if (status.has_last_reform() && status.last_reform().generation() > 1) {
    absl::StrAppend(&text, ReformText(status), "\n");
  }
  if (status.has_fence()) {
    absl::StrAppend(&text, "waits: ", status.fence_reason(), "\n");
  }
  absl::StrAppend(&text, DifferencesTable(status));
  if (status.has_pings()) absl::StrAppend(&text, PingsTable(status.pings()));
  if (status.has_root_cause()) {
    absl::StrAppend(&text, "cause: ", Cause(status.root_cause()), "\n");
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

uint64_t FailedConnections(const v1::JobStatus& status) {
  const v1::Strangers& all = status.strangers();
  return all.silent() + all.garbage() + all.crowded() + all.unknown() +
         all.hung_up();
}

std::string FailedText(const v1::JobStatus& status) {
  const v1::Strangers& all = status.strangers();
  const struct {
    uint64_t count;
    const char* how;
  } kHows[] = {
      {all.hung_up(), "closed by the peer"},
      {all.silent(), "silent"},
      {all.garbage(), "no TLS"},
      {all.crowded(), "too many at once"},
      {all.unknown(), "without credentials"},
  };
  std::vector<std::string> parts;
  for (const auto& [count, how] : kHows) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", how));
  }
  if (parts.empty()) return "";
  return absl::StrCat("connections that failed before joining: ",
                      absl::StrJoin(parts, ", "));
}

namespace {

// Attending nodes that get no seat, with the reason of the first.
std::string SeatlessText(const v1::JobStatus& status) {
  if (status.state() != v1::JOB_STATE_GATHERING) return "";
  std::string text;
  size_t more = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() != v1::NODE_STATE_SPARE || node.reason().empty()) continue;
    if (text.empty()) {
      text = absl::StrCat("; ", node.node(), " gets no seat: ", node.reason());
    } else {
      ++more;
    }
  }
  return more == 0 ? text : absl::StrCat(text, " (and ", more, " more)");
}

}  // namespace

std::string WaitingText(const v1::JobStatus& status) {
  const std::vector<std::string> missing(status.missing().begin(),
                                         status.missing().end());
  const uint64_t count =
      std::max<uint64_t>(status.missing_count(), missing.size());
  if (count == 0 && status.has_fence()) {
    return absl::StrCat("waiting for the ranks of generation ",
                        status.generation(), " to stop");
  }
  if (count == 0) {
    return absl::StrCat(Word(status.state()), " generation ",
                        status.generation());
  }
  std::string text = absl::StrCat("waiting for ", count, " of ",
                                  Counted(status.nodes_max(), "node"));
  if (!missing.empty()) absl::StrAppend(&text, ": ", Names(missing));
  if (!missing.empty() && missing.size() < count) {
    absl::StrAppend(&text, " and ", count - missing.size(), " of any name");
  }
  return text + SeatlessText(status);
}

std::string StragglersText(const v1::JobStatus& status) {
  std::vector<std::string> running;
  size_t finished = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_FINISHED) ++finished;
    if (node.state() == v1::NODE_STATE_RUNNING ||
        node.state() == v1::NODE_STATE_SUSPECT) {
      running.push_back(node.node());
    }
  }
  if (finished == 0 || running.empty()) return "";
  return absl::StrCat(Counted(finished, "node"),
                      " finished; still running: ", Names(running));
}

std::string ReformText(const v1::JobStatus& status) {
  uint64_t seated = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node_rank() >= 0) ++seated;
  }
  const v1::Reform& reform = status.last_reform();
  return absl::StrCat(
      "generation ", reform.generation(), ": ",
      reform.reason().empty() ? Word(reform.code()) : reform.reason(), "; ",
      Counted(seated, "node"), ", ", Counted(status.world_size(), "rank"));
}

std::string FailureText(const v1::End& end) {
  if (!end.has_root_cause()) {
    return end.reason().empty()
               ? absl::StrCat("the run failed: ", Word(end.code()))
               : end.reason();
  }
  const v1::RootCause& cause = end.root_cause();
  const std::string what = Cause(cause);
  // The reason often contains this text already.
  const bool said = absl::StartsWith(end.reason(), what);
  std::string text = said ? end.reason() : what;
  for (absl::string_view line :
       absl::StrSplit(cause.stderr_tail(), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, "\n  | ", line);
  }
  if (!said && !end.reason().empty()) {
    absl::StrAppend(&text, "\n", end.reason());
  }
  return text;
}

std::string LeftAliveText(const v1::JobStatus& status) {
  std::vector<std::string> alive;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() == v1::NODE_STATE_RUNNING) alive.push_back(node.node());
  }
  return absl::StrCat("ranks that still live", alive.empty() ? "" : " on ",
                      Names(alive));
}

std::string ShortDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 120) return absl::StrCat(seconds, " s");
  return absl::StrCat(seconds / 60, " min ", seconds % 60, " s");
}

}  // namespace rollcall
