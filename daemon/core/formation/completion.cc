#include "daemon/core/formation/completion.h"

#include <algorithm>

#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

constexpr absl::Duration kFinishedTogether = absl::Milliseconds(100);

}  // namespace

// The job's end does not wait for ranks that are never started (--once).
Completion::Completion(const v1::World& world, bool taken_up, absl::Time now,
                       Membership& membership)
    : running_since_(now), taken_up_(taken_up) {
  for (const v1::Member& member : world.members()) {
    const uint32_t started = RanksStarted(member);
    membership.At(member.node()).ranks.started = started;
    ranks_over_ += member.ranks() - started;
    unfinished_ += started > 0;
  }
}

bool Completion::RankEnded(Node& node, uint32_t local_rank) {
  node.ranks.done.insert(local_rank);
  ++ranks_over_;
  if (!node.ended()) return false;
  --unfinished_;
  return true;
}

// The daemon waits for finished members to come back as for others, but losing
// one changes nothing.
void Completion::TakeUp(const v1::FinishedNodes& finished,
                        const v1::World& world, Membership& membership) {
  for (const uint32_t node_rank : finished.node_ranks()) {
    if (node_rank >= static_cast<uint32_t>(world.members_size())) continue;
    const v1::Member& member = world.members(static_cast<int>(node_rank));
    Node& node = membership.At(member.node());
    // Not all members can have finished, because the run would have ended then.
    if (node.ended() || unfinished_ == 1) continue;
    for (uint32_t i = 0; i < node.ranks.started; ++i) node.ranks.done.insert(i);
    ranks_over_ += node.ranks.started;
    --unfinished_;
    finished_.insert(node_rank);
    node.lease.broke_with_many = false;
  }
}

bool Completion::HasBegun(const Membership& membership) const {
  const Membership::Nodes& nodes = membership.nodes();
  return !finished_.empty() ||
         std::any_of(nodes.begin(), nodes.end(), [](const auto& entry) {
           return entry.second.member() && !entry.second.ranks.done.empty();
         });
}

void Completion::Finished(const Node& node, absl::Time now) {
  finished_.insert(static_cast<uint32_t>(node.node_rank));
  record_due_ = std::min(record_due_, now + kFinishedTogether);
}

v1::FinishedNodes Completion::TakeRecord() {
  DropRecord();
  v1::FinishedNodes record;
  for (const uint32_t node_rank : finished_) record.add_node_ranks(node_rank);
  return record;
}

}  // namespace rollcall
