#include "client/facts/bound_facts.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/network_plan/plan_node.h"

namespace rollcall {
namespace {

// The first GIDs of a port are always kept, because the link-local GIDs come
// first, and InfiniBand has no others.
constexpr int kGidsKept = 2;
constexpr int kMissingKept = 16;

// These GIDs always fit.
static_assert(kGidsKept * FactsLimits::devices_max <=
              FactsLimits::gids_of_node_max);

// The higher the number, the less useful is the address to a peer.
int Uselessness(const v1::Interface& interface, absl::string_view address) {
  if (absl::StartsWith(address, "fe80:") ||
      absl::StartsWith(address, "169.254.")) {
    return 4;
  }
  if (!interface.up() || interface.loopback()) return 3;
  if (interface.default_route()) return 0;
  return IsLocalBridge(interface.name()) ? 2 : 1;
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

using Wanted = bool (*)(const v1::Gid& gid);

// Keeps the first kGidsKept GIDs of each port, and those that are `wanted`.
void CutGids(v1::Facts& facts, Wanted wanted) {
  for (v1::InfinibandPort& port : *facts.mutable_infiniband()) {
    auto& gids = *port.mutable_gids();
    int place = 0;
    gids.erase(std::remove_if(gids.begin(), gids.end(),
                              [&](const v1::Gid& gid) {
                                return place++ >= kGidsKept && !wanted(gid);
                              }),
               gids.end());
  }
}

bool IsIpv4Mapped(const v1::Gid& gid) {
  return absl::StartsWith(gid.address(), "::ffff:");
}

// Whether a connection may use this GID.
bool IsReachable(const v1::Gid& gid) {
  return !gid.net_device().empty() || IsIpv4Mapped(gid);
}

// Whether NCCL and UCX prefer this GID.
bool IsRoceV2OverIpv4(const v1::Gid& gid) {
  return IsIpv4Mapped(gid) && gid.type() == "RoCE v2";
}

bool IsNone(const v1::Gid&) { return false; }

void BoundGids(v1::Facts& facts) {
  for (const Wanted wanted : {&IsReachable, &IsRoceV2OverIpv4, &IsNone}) {
    size_t count = 0;
    for (const auto& port : facts.infiniband()) count += port.gids_size();
    if (count <= FactsLimits::gids_of_node_max) return;
    CutGids(facts, wanted);
  }
}

void BoundWords(v1::Facts& facts) {
  const auto fits = [&] {
    size_t count = 0;
    for (const auto& gpu : facts.gpus()) {
      count += gpu.near_hcas_size() + gpu.throttle_reasons_size();
    }
    return count <= FactsLimits::words_of_node_max;
  };
  if (fits()) return;
  for (v1::Gpu& gpu : *facts.mutable_gpus()) gpu.clear_near_hcas();
  if (fits()) return;
  for (v1::Gpu& gpu : *facts.mutable_gpus()) gpu.clear_throttle_reasons();
}

template <typename Fits>
void DropInterfacesWithoutAddress(v1::Facts& facts, Fits fits) {
  auto& interfaces = *facts.mutable_interfaces();
  for (int i = interfaces.size() - 1; i >= 0 && !fits(); --i) {
    if (interfaces[i].addresses().empty()) {
      interfaces.erase(interfaces.begin() + i);
    }
  }
}

template <typename Repeated>
void DropFromEnd(Repeated& parts, const v1::Facts& facts, size_t bytes_max,
                 int kept = 0) {
  while (parts.size() > kept && facts.ByteSizeLong() > bytes_max) {
    parts.RemoveLast();
  }
}

}  // namespace

void BoundFacts(v1::Facts& facts, size_t addresses_max, size_t bytes_max) {
  BoundAddresses(facts, addresses_max);
  DropInterfacesWithoutAddress(facts, [&] {
    return static_cast<size_t>(facts.interfaces_size()) <=
           Limits::interfaces_per_node_max;
  });
  BoundGids(facts);
  BoundWords(facts);
  const auto fits = [&] { return facts.ByteSizeLong() <= bytes_max; };
  if (fits()) return;
  CutGids(facts, &IsReachable);
  DropInterfacesWithoutAddress(facts, fits);
  if (fits()) return;
  for (v1::Gpu& gpu : *facts.mutable_gpus()) gpu.clear_near_hcas();
  if (fits()) return;
  CutGids(facts, &IsRoceV2OverIpv4);
  if (fits()) return;
  CutGids(facts, &IsNone);
  DropFromEnd(*facts.mutable_missing(), facts, bytes_max, kMissingKept);
  if (facts.has_communication() && !fits()) {
    v1::CommunicationVariables& all = *facts.mutable_communication();
    all.set_more(true);
    DropFromEnd(*all.mutable_variables(), facts, bytes_max);
  }
  DropFromEnd(*facts.mutable_interfaces(), facts, bytes_max);
  DropFromEnd(*facts.mutable_infiniband(), facts, bytes_max);
  DropFromEnd(*facts.mutable_gpus(), facts, bytes_max);
  DropFromEnd(*facts.mutable_missing(), facts, bytes_max);
  DropFromEnd(*facts.mutable_folders(), facts, bytes_max);
  DropFromEnd(*facts.mutable_same_files(), facts, bytes_max);
}

}  // namespace rollcall
