#include "client/facts/facts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "client/facts/bound_facts.h"
#include "client/facts/gpu.h"
#include "client/facts/missing.h"
#include "client/facts/network.h"
#include "client/facts/system.h"
#include "daemon/core/admission.h"

namespace rollcall {

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
  // Counted in both, each time after the variables that hide some.
  whole.set_gpu_count(devices.gpu_count() > 0 ? devices.gpu_count()
                                              : facts.gpu_count());
  whole.clear_missing();
  for (const v1::Facts* part : {&std::as_const(facts), &devices}) {
    for (const v1::MissingFact& one : part->missing()) {
      AddMissing(whole, one.fact(), one.reason(), one.remedy());
    }
  }
  BoundFacts(whole);
  facts = std::move(whole);
}

bool RefreshNetwork(v1::Facts& facts) {
  v1::Facts now;
  if (!GatherNetwork(now)) return false;
  v1::Facts whole = facts;
  whole.mutable_interfaces()->Swap(now.mutable_interfaces());
  whole.clear_missing();
  for (const v1::MissingFact& one : facts.missing()) {
    if (!absl::StartsWith(one.fact(), "interfaces")) *whole.add_missing() = one;
  }
  for (const v1::MissingFact& one : now.missing()) {
    AddMissing(whole, one.fact(), one.reason(), one.remedy());
  }
  BoundFacts(whole);
  const bool same = std::equal(
      facts.interfaces().begin(), facts.interfaces().end(),
      whole.interfaces().begin(), whole.interfaces().end(),
      [](const v1::Interface& before, const v1::Interface& after) {
        return before.SerializeAsString() == after.SerializeAsString();
      });
  facts = std::move(whole);
  return !same;
}

v1::Facts GatherNodeFacts(const NodeFactsOptions& options) {
  const v1::Facts devices =
      HasDevices(options.devices)
          ? AskDeviceFacts(options.self, options.environment, options.devices)
          : WithoutDevices(options.devices);
  v1::Facts facts = GatherFacts(options.devices.sysroot);
  AddDeviceFacts(devices, facts);
  return facts;
}

}  // namespace rollcall
