#include "client/facts/facts.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/facts/gpu.h"
#include "client/facts/network.h"
#include "client/facts/system.h"

namespace rollcall {
namespace {

// How little a peer would lose by not knowing the address; larger is less.
int Uselessness(const v1::Interface& interface, absl::string_view address) {
  if (absl::StartsWith(address, "fe80:") ||
      absl::StartsWith(address, "169.254.")) {
    return 4;
  }
  if (!interface.up()) return 3;
  if (!interface.device_type().empty() || interface.loopback()) return 2;
  return interface.default_route() ? 0 : 1;
}

void BoundAddresses(v1::Facts& facts, size_t addresses_max) {
  size_t count = 0;
  for (const auto& interface : facts.interfaces()) {
    count += interface.addresses_size();
  }
  for (int worst = 4; worst >= 0 && count > addresses_max; --worst) {
    for (int i = facts.interfaces_size() - 1; i >= 0; --i) {
      auto& interface = *facts.mutable_interfaces(i);
      auto& addresses = *interface.mutable_addresses();
      for (int j = addresses.size() - 1; j >= 0 && count > addresses_max; --j) {
        if (Uselessness(interface, addresses[j].address()) != worst) continue;
        addresses.erase(addresses.begin() + j);
        --count;
      }
    }
  }
}

}  // namespace

void BoundFacts(v1::Facts& facts, size_t addresses_max, size_t bytes_max) {
  BoundAddresses(facts, addresses_max);
  auto& interfaces = *facts.mutable_interfaces();
  for (int i = interfaces.size() - 1; i >= 0; --i) {
    if (facts.ByteSizeLong() <= bytes_max) return;
    if (interfaces[i].addresses().empty()) {
      interfaces.erase(interfaces.begin() + i);
    }
  }
  while (!interfaces.empty() && facts.ByteSizeLong() > bytes_max) {
    interfaces.RemoveLast();
  }
}

v1::Facts GatherFacts() {
  v1::Facts facts;
  GatherSystem(facts);
  GatherNetwork(facts);
  GatherGpus(facts);
  BoundFacts(facts);
  return facts;
}

}  // namespace rollcall
