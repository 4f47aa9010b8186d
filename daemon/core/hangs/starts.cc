#include "daemon/core/hangs/starts.h"

#include <algorithm>
#include <utility>

#include "daemon/core/limits.h"

namespace rollcall {

bool AnyHasStarted(const Membership& membership) {
  const Membership::Nodes& nodes = membership.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& entry) {
    return entry.second.member() && entry.second.ranks.start_took.has_value();
  });
}

Starts::Starts(size_t nodes, std::vector<absl::Duration> took)
    : nodes_(nodes), took_(std::move(took)) {
  Judge();
}

Starts::Starts(const v1::World& world, const Membership& membership)
    : nodes_(static_cast<size_t>(world.members_size())) {
  for (const Node* node : membership.MembersOf(world)) {
    if (node->ranks.start_took.has_value())
      took_.push_back(*node->ranks.start_took);
  }
  Judge();
}

bool Starts::Add(absl::Duration took) {
  if (expected_) return false;
  took_.push_back(took);
  return Judge();
}

bool Starts::Judge() {
  if (took_.size() * 2 <= nodes_) return false;
  const auto most = took_.begin() + static_cast<std::ptrdiff_t>(nodes_ / 2);
  std::nth_element(took_.begin(), most, took_.end());
  more_ = std::min(*most, Limits::wait_max);
  expected_ = true;
  took_.clear();
  return true;
}

}  // namespace rollcall
