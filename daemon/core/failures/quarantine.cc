#include "daemon/core/failures/quarantine.h"

#include <algorithm>

namespace rollcall {

std::vector<Node*> Quarantine::ToQuarantine(Membership& membership,
                                            size_t nodes_min,
                                            const Limits& limits) {
  if (!judge_ || membership.present() <= nodes_min) return {};
  std::vector<Node*> blamed;
  for (auto& [name, node] : membership.nodes()) {
    if (membership.IsEligible(node) &&
        node.record.blames >= limits.blames_in_a_row) {
      blamed.push_back(&node);
    }
  }
  const size_t spared = membership.present() - nodes_min;
  judge_ = blamed.size() > spared;
  if (judge_) blamed.resize(spared);
  return blamed;
}

std::vector<Node*> Quarantine::ToRelease(
    Membership& membership, size_t missing,
    const std::function<bool(const Node&)>& leaves) {
  std::vector<Node*> blamed;
  for (const std::string& name : membership.excluded()) {
    Node& node = membership.At(name);
    if (node.exclusion.quarantined && !node.record.unfit && !leaves(node)) {
      blamed.push_back(&node);
    }
  }
  std::stable_sort(blamed.begin(), blamed.end(),
                   [](const Node* a, const Node* b) {
                     return a->record.blames < b->record.blames;
                   });
  if (blamed.size() > missing) blamed.resize(missing);
  return blamed;
}

uint64_t Quarantine::Ask(Node& node, absl::Time now, const Limits& limits) {
  node.record.check = ++last_request_;
  node.record.checked_until = now + limits.check_timeout;
  checking_.insert(node.name());
  return node.record.check;
}

bool Quarantine::TakeResult(Node& node, uint64_t request) {
  if (node.record.check == 0 || request != node.record.check) return false;
  Forget(node);
  return true;
}

absl::Time Quarantine::PendingUntil(const Membership& membership,
                                    absl::Time now) const {
  absl::Time first = absl::InfiniteFuture();
  for (const std::string& name : checking_) {
    const absl::Time until = membership.At(name).record.checked_until;
    if (until > now) first = std::min(first, until);
  }
  return first == absl::InfiniteFuture() ? absl::InfinitePast() : first;
}

void Quarantine::Forget(Node& node) {
  node.record.check = 0;
  checking_.erase(node.name());
}

}  // namespace rollcall
