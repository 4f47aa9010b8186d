#include "daemon/core/formation/fence.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/name_list.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

// Most members named in a message.
constexpr size_t kFencedNamedMax = 4;

bool IsLifeOf(const NodeIncarnation& node_incarnation,
              const Fence::Member& member) {
  if (node_incarnation.node != member.node) return false;
  if (member.incarnation == 0) return true;
  return node_incarnation.incarnation == member.incarnation ||
         (member.latest != 0 && node_incarnation.incarnation == member.latest);
}

}  // namespace

Fence::Fence(uint64_t generation, std::vector<Member> members)
    : generation_(generation), members_(std::move(members)) {}

// Members whose ranks have finished or are not started (--once) cannot prevent
// the world from training. So they neither open the fence nor are waited for.
Fence::Fence(const v1::World& world, const v1::WorldCommit& world_commit,
             const std::set<uint32_t>& finished, const Membership& membership,
             absl::Time now)
    : generation_(world.generation()) {
  for (int row = 0; row < world.members_size(); ++row) {
    const v1::Member& member = world.members(row);
    if (finished.contains(member.node_rank())) continue;
    if (RanksStarted(member) == 0) continue;
    const Node* const node = membership.Find(member.node());
    const bool served = node != nullptr && node->served_in == generation_;
    members_.push_back({member.node(),
                        row < world_commit.incarnations_size()
                            ? world_commit.incarnations(row)
                            : 0,
                        served ? node->lease.heard_at : now});
  }
}

void Fence::GoesOn(const NodeIncarnation& from, uint64_t incarnation) {
  for (Member& member : members_) {
    if (IsLifeOf(from, member)) member.latest = incarnation;
  }
}

bool Fence::Gone(const NodeIncarnation& node_incarnation) {
  const bool known =
      std::any_of(members_.begin(), members_.end(), [&](const Member& member) {
        return member.incarnation != 0 && IsLifeOf(node_incarnation, member);
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

bool Fence::Has(const NodeIncarnation& node_incarnation) const {
  return std::any_of(
      members_.begin(), members_.end(),
      [&](const Member& member) { return IsLifeOf(node_incarnation, member); });
}

bool Fence::IsOf(const Node& node) const {
  return (node.credential.shown || node.served_in == generation_) &&
         Has({node.name(), node.hello.incarnation()});
}

bool Fence::IsTakenOver(const std::string& name,
                        const Membership& membership) const {
  const Node* const node = membership.Find(name);
  return HasNode(name) && node != nullptr && !node->gone && !node->restored() &&
         !IsOf(*node);
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

std::string Fence::Text(absl::Duration left,
                        const Membership& membership) const {
  std::vector<std::string> names;
  for (const Member& member : members_) names.push_back(member.node);
  const bool one = members_.size() == 1;
  // A member without a stream is preferred, because another agent may have the
  // name of a member with a stream by now.
  const auto absent = [&](const Member& member) {
    const Node* const at = membership.Find(member.node);
    return at == nullptr || at->session == 0;
  };
  auto advised = std::find_if(members_.begin(), members_.end(), absent);
  if (advised == members_.end()) advised = members_.begin();
  // Rounded: a person needs no finer value, and so the status changes less
  // often.
  const absl::Duration unit =
      left > absl::Minutes(1) ? absl::Minutes(1) : absl::Seconds(10);
  return absl::StrCat(
      "generation ", generation_, " may still train on ",
      NameList(std::move(names), kFencedNamedMax), ", whose former agent",
      one ? " is" : "s are", " not heard: the next world waits until ",
      one ? "it has" : "one of them has", " stopped, at most ",
      absl::FormatDuration(absl::Ceil(left, unit)),
      "; if one is known to be gone, `rollcall evict ", advised->node, "`");
}

}  // namespace rollcall
