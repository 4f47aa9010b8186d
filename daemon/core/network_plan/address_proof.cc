#include "daemon/core/network_plan/address_proof.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace rollcall {

std::string MachineOf(const v1::Facts& facts) {
  return absl::StrCat(facts.boot_id(), "/", facts.network_namespace());
}

AddressProof::AddressProof(const std::vector<PlanNode>& nodes) {
  const bool runs =
      std::any_of(nodes.begin(), nodes.end(),
                  [](const PlanNode& node) { return node.stays; });
  for (const PlanNode& node : nodes) {
    if (node.stays || !runs) voters_.insert(node.node);
    if (HasInterfaceAt(node, node.observed_address)) {
      observed_[*AddressBytes(node.observed_address)].insert(
          MachineOf(*node.facts));
    }
  }
  // A node does not probe itself. So if only one member is left, all nodes of
  // the plan vote.
  if (voters_.size() < 2) {
    for (const PlanNode& node : nodes) voters_.insert(node.node);
  }
}

size_t AddressProof::Votes(const PlanNode& node,
                           const std::string& address) const {
  if (node.probed == nullptr) return 0;
  return std::count_if(
      node.probed->begin(), node.probed->end(), [&](const auto& by) {
        return voters_.contains(by.first) && IsReached(by.second, address);
      });
}

bool AddressProof::Proves(const PlanNode& node,
                          const UsableAddress& usable) const {
  if (node.probed == nullptr && node.launcher) return true;
  if (node.probed != nullptr) {
    const size_t drawn = std::count_if(
        node.probed->begin(), node.probed->end(),
        [&](const auto& by) { return voters_.contains(by.first); });
    if (2 * Votes(node, usable.address) > drawn) return true;
  }
  const std::optional<std::string> bytes = AddressBytes(usable.address);
  if (usable.interface.empty() ||
      bytes != AddressBytes(node.observed_address)) {
    return false;
  }
  return observed_.at(*bytes).size() == 1;
}

}  // namespace rollcall
