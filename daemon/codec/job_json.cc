#include "daemon/codec/job_json.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/core/status_words.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

ordered_json NodeJson(const v1::NodeStatus& node) {
  ordered_json json = {
      {"node", node.node()},           {"state", Word(node.state())},
      {"node_rank", node.node_rank()}, {"incarnation", node.incarnation()},
      {"address", node.address()},     {"lease_ms", node.lease_ms()},
      {"ranks", node.ranks()},         {"step", node.step()},
      {"reason", node.reason()}};
  if (node.has_prepared()) json["prepared"] = node.prepared();
  json["changes"] = ordered_json::array();
  for (const v1::NodeChange& change : node.changes()) {
    json["changes"].push_back(
        {{"kind", Word(change.change().kind())},
         {"subject", change.change().subject()},
         {"before", change.change().before()},
         {"after", change.change().after()},
         {"count", change.change().count()},
         {"age_s", absl::ToDoubleSeconds(FromProto(change.age()))}});
  }
  json["changes_dropped"] = node.changes_dropped();
  return json;
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

ordered_json PingsJson(const v1::Pings& pings) {
  ordered_json json = {{"age_s", absl::ToDoubleSeconds(FromProto(pings.age()))},
                       {"pairs", pings.pairs()},
                       {"unreached", pings.unreached()},
                       {"pings", ordered_json::array()}};
  for (const v1::Ping& ping : pings.pings()) {
    ordered_json one = {{"from", ping.from()},
                        {"to", ping.to()},
                        {"reached", ping.reached()},
                        {"ms", nullptr},
                        {"error", ping.error()}};
    if (ping.has_round_trip())
      one["ms"] = absl::ToDoubleMilliseconds(FromProto(ping.round_trip()));
    json["pings"].push_back(std::move(one));
  }
  return json;
}

// Seconds since 1970.
double UnixSeconds(const google::protobuf::Timestamp& time) {
  return absl::ToDoubleSeconds(FromProto(time) - absl::UnixEpoch());
}

ordered_json HistoryJson(const v1::JobHistory& history) {
  ordered_json json = {
      {"changes", ordered_json::array()},
      {"formed", ordered_json::object()},
      {"commits", history.commits()},
      {"commit_s",
       absl::ToDoubleSeconds(FromProto(history.commit_time_last()))},
  };
  for (const v1::StateChange& change : history.changes()) {
    json["changes"].push_back({{"at", UnixSeconds(change.at())},
                               {"state", Word(change.state())},
                               {"generation", change.generation()},
                               {"code", Word(change.code())},
                               {"reason", change.reason()}});
  }
  // Sorted, so that the order is stable.
  const std::map<std::string, uint64_t> formed(history.formed().begin(),
                                               history.formed().end());
  for (const auto& [code, count] : formed) json["formed"][code] = count;
  return json;
}

ordered_json SummaryJson(const v1::RunSummary& summary) {
  const auto seconds = [](const google::protobuf::Duration& time) {
    return absl::ToDoubleSeconds(FromProto(time));
  };
  ordered_json json = {{"began", UnixSeconds(summary.began())},
                       {"elapsed_s", seconds(summary.elapsed())},
                       {"running_s", seconds(summary.running())},
                       {"worlds", summary.worlds()},
                       {"interruption_count", summary.interruption_count()},
                       {"stopped_s", seconds(summary.stopped())},
                       {"events_lost", summary.events_lost()},
                       {"interruptions", ordered_json::array()}};
  for (const v1::Interruption& one : summary.interruptions()) {
    ordered_json added = {{"at", UnixSeconds(one.at())},
                          {"generation", one.generation()},
                          {"code", Word(one.code())},
                          {"reason", one.reason()},
                          {"stopped_s", nullptr}};
    if (one.has_stopped()) added["stopped_s"] = seconds(one.stopped());
    json["interruptions"].push_back(added);
  }
  return json;
}

// What a training may publish beside its pace; null: unknown.
void AddMeasures(const v1::Pace& pace, ordered_json& json) {
  for (const char* name : {"gradient_norm", "flops_utilization",
                           "validation_loss", "memory_bytes"}) {
    json[name] = nullptr;
  }
  if (pace.has_gradient_norm()) json["gradient_norm"] = pace.gradient_norm();
  if (pace.has_flops_utilization()) {
    json["flops_utilization"] = pace.flops_utilization();
  }
  if (pace.has_validation_loss()) {
    json["validation_loss"] = pace.validation_loss();
  }
  if (pace.memory_bytes() > 0) json["memory_bytes"] = pace.memory_bytes();
}

}  // namespace

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
        {"detail", cause.detail().empty() ? CauseText(cause) : cause.detail()},
        {"node_changes", cause.node_changes()}};
  }
  if (status.has_exit_code()) {
    json["end"] = {{"exit_code", status.exit_code()},
                   {"code", Word(status.end_code())},
                   {"reason", status.end_reason()}};
  }
  json["differences"] = ordered_json::array();
  for (const v1::Difference& difference : status.differences()) {
    json["differences"].push_back(DifferenceJson(difference));
  }
  if (status.has_pings()) json["pings"] = PingsJson(status.pings());
  json["waited_s"] = absl::ToDoubleSeconds(FromProto(status.waited()));
  json["step"] = status.step();
  json["awaits"] = status.awaits();
  json["saved_step"] = status.saved_step();
  json["slow"] = nullptr;
  if (status.has_slow()) {
    json["slow"] = {
        {"step_s", absl::ToDoubleSeconds(FromProto(status.slow().step()))},
        {"median_s", absl::ToDoubleSeconds(FromProto(status.slow().median()))},
        {"changed", status.slow().changed()}};
  }
  json["steps"] = nullptr;
  json["loss"] = nullptr;
  json["tokens_per_second"] = nullptr;
  // 0: the training has not reported its number of steps.
  if (status.pace().steps() > 0) json["steps"] = status.pace().steps();
  if (status.has_pace()) {
    json["loss"] = status.pace().loss();
    json["tokens_per_second"] = status.pace().tokens_per_second();
  }
  AddMeasures(status.pace(), json);
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
  if (status.has_history()) json["history"] = HistoryJson(status.history());
  if (status.has_resumed()) {
    json["resumed"] = {{"step", status.resumed().step()},
                       {"was", status.resumed().was()},
                       {"saved_step", status.resumed().saved_step()},
                       {"former_run", status.resumed().former_run()}};
  }
  if (status.has_peak_memory()) {
    const v1::RankMemory& peak = status.peak_memory();
    json["peak_memory"] = {{"node", peak.node()},
                           {"local_rank", peak.local_rank()},
                           {"bytes", peak.bytes()}};
  }
  if (status.has_summary()) json["summary"] = SummaryJson(status.summary());
  json["unauthenticated"] = {{"silent", status.unauthenticated().silent()},
                             {"garbage", status.unauthenticated().garbage()},
                             {"crowded", status.unauthenticated().crowded()},
                             {"unknown", status.unauthenticated().unknown()},
                             {"hung_up", status.unauthenticated().hung_up()}};
  return json;
}

std::string OneLine(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace rollcall
