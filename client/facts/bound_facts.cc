#include "client/facts/bound_facts.h"

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace rollcall {
namespace {

// GIDs that a port keeps whatever they are: link-local ones come first, and
// InfiniBand has no other.
constexpr int kGidsKept = 2;
constexpr int kMissingKept = 16;

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

// Keeps the first `kept` GIDs of each port, and those that `wanted` takes.
void CutGids(v1::Facts& facts, int kept,
             const std::function<bool(const v1::Gid&)>& wanted) {
  for (v1::InfinibandPort& port : *facts.mutable_infiniband()) {
    auto& gids = *port.mutable_gids();
    int place = 0;
    gids.erase(std::remove_if(gids.begin(), gids.end(),
                              [&](const v1::Gid& gid) {
                                return place++ >= kept && !wanted(gid);
                              }),
               gids.end());
  }
}

bool IsIpv4Mapped(const v1::Gid& gid) {
  return absl::StartsWith(gid.address(), "::ffff:");
}

void DropInterfacesWithoutAddress(v1::Facts& facts, size_t bytes_max) {
  auto& interfaces = *facts.mutable_interfaces();
  for (int i = interfaces.size() - 1; i >= 0; --i) {
    if (facts.ByteSizeLong() <= bytes_max) return;
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
  const auto fits = [&] { return facts.ByteSizeLong() <= bytes_max; };
  if (fits()) return;
  CutGids(facts, kGidsKept, [](const v1::Gid& gid) {
    return !gid.net_device().empty() || IsIpv4Mapped(gid);
  });
  DropInterfacesWithoutAddress(facts, bytes_max);
  if (fits()) return;
  for (v1::Gpu& gpu : *facts.mutable_gpus()) gpu.clear_near_hcas();
  if (fits()) return;
  // RoCE v2 over IPv4 is what NCCL and UCX choose where there is one.
  CutGids(facts, kGidsKept, [](const v1::Gid& gid) {
    return IsIpv4Mapped(gid) && gid.type() == "RoCE v2";
  });
  if (fits()) return;
  CutGids(facts, kGidsKept, [](const v1::Gid&) { return false; });
  DropFromEnd(*facts.mutable_missing(), facts, bytes_max, kMissingKept);
  DropFromEnd(*facts.mutable_interfaces(), facts, bytes_max);
  DropFromEnd(*facts.mutable_infiniband(), facts, bytes_max);
  DropFromEnd(*facts.mutable_gpus(), facts, bytes_max);
  DropFromEnd(*facts.mutable_missing(), facts, bytes_max);
  DropFromEnd(*facts.mutable_folders(), facts, bytes_max);
}

}  // namespace rollcall
