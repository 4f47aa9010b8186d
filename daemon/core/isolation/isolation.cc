#include "daemon/core/isolation/isolation.h"

#include <utility>

namespace rollcall {

std::vector<std::string> Isolation::NoteBreak(const std::string& node,
                                              size_t members, absl::Time now,
                                              const Limits& limits) {
  while (!breaks_.empty() &&
         (now - breaks_.front().at > limits.mass_break_window ||
          breaks_.size() >= Limits::nodes_max)) {
    broke_.erase(breaks_.front().node);
    breaks_.pop_front();
  }
  if (broke_.insert(node).second) breaks_.push_back({now, node});
  if (breaks_.size() <= members / 10 ||
      breaks_.size() < Limits::mass_break_min) {
    return {};
  }
  std::vector<std::string> waited_for = {node};
  // The loop stops at a break that was returned before: all earlier ones were
  // returned as well.
  for (auto at = breaks_.rbegin(); at != breaks_.rend() && !at->told; ++at) {
    at->told = true;
    if (at->node != node) waited_for.push_back(at->node);
  }
  return waited_for;
}

bool Isolation::IsSilent(const Node& node, absl::Time now,
                         const Limits& limits) {
  if (node.session == 0) return node.lease.broke_with_many;
  return node.lease.until <= now + limits.lease / 2;
}

bool Isolation::MaybeBegin(const std::vector<const Node*>& members,
                           absl::Time now, const Limits& limits) {
  std::set<std::string> silent;
  for (const Node* node : members) {
    if (IsSilent(*node, now, limits)) silent.insert(node->name());
  }
  if (silent.size() * 2 <= members.size()) return false;
  Begin(std::move(silent), now + limits.daemon_grace);
  return true;
}

void Isolation::Begin(std::set<std::string> silent, absl::Time until) {
  on_ = true;
  until_ = until;
  silent_ = std::move(silent);
}

std::set<std::string> Isolation::End() {
  on_ = false;
  until_ = absl::InfiniteFuture();
  return std::exchange(silent_, {});
}

}  // namespace rollcall
