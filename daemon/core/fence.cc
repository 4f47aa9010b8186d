#include "daemon/core/fence.h"

#include <algorithm>
#include <utility>

namespace rollcall {
namespace {

bool IsLifeOf(const NodeLife& life, const Fence::Member& member) {
  if (life.node != member.node) return false;
  if (member.incarnation == 0) return true;
  return life.incarnation == member.incarnation ||
         (member.latest != 0 && life.incarnation == member.latest);
}

}  // namespace

Fence::Fence(uint64_t generation, std::vector<Member> members)
    : generation_(generation), members_(std::move(members)) {}

void Fence::GoesOn(const NodeLife& from, uint64_t incarnation) {
  for (Member& member : members_) {
    if (IsLifeOf(from, member)) member.latest = incarnation;
  }
}

bool Fence::Gone(const NodeLife& life) {
  const bool known =
      std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
        return member.incarnation != 0 && IsLifeOf(life, member);
      });
  if (!known) return false;
  members_.clear();
  return true;
}

bool Fence::Gone(const std::string& node) {
  if (!HasNode(node)) return false;
  members_.clear();
  return true;
}

bool Fence::Has(const NodeLife& life) const {
  return std::any_of(
      members_.begin(), members_.end(),
      [&](const Member& member) { return IsLifeOf(life, member); });
}

bool Fence::HasNode(const std::string& node) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.node == node; });
}

absl::Time Fence::Opens(absl::Duration unheard) const {
  const auto first = std::min_element(
      members_.begin(), members_.end(),
      [](const Member& a, const Member& b) { return a.heard_at < b.heard_at; });
  if (first == members_.end()) return absl::InfinitePast();
  return first->heard_at + unheard;
}

}  // namespace rollcall
