#include "client/facts/facts.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "client/facts/bound_facts.h"
#include "client/facts/communication.h"
#include "client/facts/devices/gpu.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/network.h"
#include "client/facts/system/system.h"
#include "daemon/core/admission/admission.h"
#include "google/protobuf/repeated_field.h"

namespace rollcall {
namespace {

bool IsMissing(const v1::Facts& facts, absl::string_view fact) {
  return std::any_of(facts.missing().begin(), facts.missing().end(),
                     [&](const auto& one) { return one.fact() == fact; });
}

// Copies the interfaces and the missing facts about them.
void CopyNetwork(const v1::Facts& from, v1::Facts& to) {
  const auto is_of_it = [](const v1::MissingFact& one) {
    return absl::StartsWith(one.fact(), "interfaces");
  };
  *to.mutable_interfaces() = from.interfaces();
  google::protobuf::RepeatedPtrField<v1::MissingFact> missing;
  missing.Swap(to.mutable_missing());
  for (const v1::MissingFact& one : missing) {
    if (!is_of_it(one)) AddMissing(to, one);
  }
  for (const v1::MissingFact& one : from.missing()) {
    if (is_of_it(one)) AddMissing(to, one);
  }
}

}  // namespace

v1::Facts GatherFacts(const std::string& sysroot) {
  v1::Facts facts;
  GatherSystem(facts);
  GatherNetwork(facts);
  CountGpus(sysroot, facts);
  BoundFacts(facts);
  return facts;
}

void AddDeviceFacts(const v1::Facts& devices, v1::Facts& facts) {
  v1::Facts whole = facts;
  whole.MergeFrom(devices);
  // Both `devices` and `facts` have a count of the GPUs that the environment
  // leaves visible.
  whole.set_gpu_count(devices.gpu_count() > 0 ? devices.gpu_count()
                                              : facts.gpu_count());
  whole.clear_missing();
  for (const v1::Facts* part : {&std::as_const(facts), &devices}) {
    for (const v1::MissingFact& one : part->missing()) {
      AddMissing(whole, one);
    }
  }
  BoundFacts(whole);
  facts = std::move(whole);
}

void TakeNetwork(const v1::Facts& now, v1::Facts& facts) {
  if (IsMissing(now, "interfaces") || IsMissing(now, "interfaces.addresses")) {
    return;
  }
  std::map<std::string, const v1::Interface*> before;
  for (const v1::Interface& known : facts.interfaces()) {
    before[known.name()] = &known;
  }
  v1::Facts whole = now;
  for (v1::Interface& interface : *whole.mutable_interfaces()) {
    const auto at = before.find(interface.name());
    if (at == before.end()) continue;
    if (IsMissing(now, "interfaces.default_route")) {
      interface.set_default_route(at->second->default_route());
    }
    if (IsMissing(now, "interfaces.speed_mbps")) {
      interface.set_speed_mbps(at->second->speed_mbps());
    }
  }
  CopyNetwork(whole, facts);
  BoundFacts(facts);
}

void TakeChecked(const v1::Facts& checked, v1::Facts& facts) {
  const bool answered =
      std::none_of(checked.missing().begin(), checked.missing().end(),
                   [](const auto& one) { return one.no_answer(); });
  if (!answered) return TakeNetwork(checked, facts);
  v1::Facts whole = checked;
  CopyNetwork(facts, whole);
  whole.set_probe_port(facts.probe_port());
  whole.set_advertised_address(facts.advertised_address());
  *whole.mutable_folders() = facts.folders();
  *whole.mutable_same_files() = facts.same_files();
  TakeNetwork(checked, whole);
  BoundFacts(whole);
  facts = std::move(whole);
}

v1::Facts GatherNodeFacts(const NodeFactsOptions& options) {
  const v1::Facts devices =
      HasDevices(options.devices)
          ? AskDeviceFacts(options.self, options.environment, options.devices)
          : WithoutDevices(options.devices);
  v1::Facts facts = GatherFacts(options.devices.sysroot);
  *facts.mutable_communication() =
      CommunicationVariablesIn(options.environment, options.nccl_conf);
  AddDeviceFacts(devices, facts);
  return facts;
}

}  // namespace rollcall
