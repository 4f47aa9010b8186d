// Part of InvariantChecker: which nodes a proposed world has, with which seats
// and ranks.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/formation/world.h"
#include "tests/sim/checker/invariant_checker.h"

namespace rollcall::sim {

void InvariantChecker::OnProposal(const v1::Proposal& proposal,
                                  absl::Time now) {
  const auto at = told_.find(proposal.generation());
  if (at != told_.end() && at->second.world == proposal.world()) return;
  const absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  if (!world.ok()) {
    return Broken(Invariant::kDense, std::string(world.status().message()));
  }
  if (world->generation() != proposal.generation()) {
    Broken(Invariant::kOneWorld, "a proposal and its world differ in number");
  }
  CheckDense(*world);
  CheckMembers(*world, now);
  CheckSticky(*world);
}

void InvariantChecker::CheckDense(const v1::World& world) {
  if (world.members_size() > 1) Tested(Invariant::kDense);
  std::set<std::string> names;
  std::set<uint32_t> seats;
  uint32_t next_rank = 0;
  uint32_t next_node_rank = 0;
  int64_t last_seat = -1;
  for (const v1::Member& member : world.members()) {
    const bool fits = names.insert(member.node()).second &&
                      seats.insert(member.seat()).second &&
                      member.node_rank() == next_node_rank++ &&
                      member.first_rank() == next_rank &&
                      int64_t{member.seat()} > last_seat;
    if (!fits) Broken(Invariant::kDense, world.ShortDebugString());
    next_rank += member.ranks();
    last_seat = member.seat();
  }
  if (next_rank != world.world_size()) {
    Broken(Invariant::kDense, world.ShortDebugString());
  }
}

void InvariantChecker::CheckSticky(const v1::World& world) {
  std::map<std::string, Seat> seats;
  for (const v1::Member& member : world.members()) {
    const auto in = in_.find(member.node());
    const uint64_t incarnation = in == in_.end() ? 0 : in->second;
    seats[member.node()] = Seat{incarnation, member.seat()};
    const auto before = seats_.find(member.node());
    if (before == seats_.end() || before->second.incarnation != incarnation) {
      continue;
    }
    Tested(Invariant::kSticky);
    if (before->second.seat == member.seat()) continue;
    Broken(Invariant::kSticky,
           absl::StrCat("node ", member.node(), " had seat ",
                        before->second.seat, " and gets seat ", member.seat(),
                        " in generation ", world.generation()));
  }
  seats_ = std::move(seats);
  seated_in_ = world.generation();
}

// Excluded and leaving nodes have no seat. A suspect keeps its seat during its
// grace.
void InvariantChecker::CheckMembers(const v1::World& world, absl::Time now) {
  std::set<std::string> members;
  for (const v1::Member& member : world.members()) {
    members.insert(member.node());
    const auto in = in_.find(member.node());
    const uint64_t incarnation = in == in_.end() ? 0 : in->second;
    const auto leaves = leaves_.find(member.node());
    if (leaves != leaves_.end() && leaves->second.incarnation == incarnation) {
      Broken(Invariant::kLeavesForGood,
             absl::StrCat("node ", member.node(), ", incarnation ", incarnation,
                          ", is in generation ", world.generation()));
    }
    const auto refused = refusals_.find(member.node());
    if (excluded_.contains(member.node()) ||
        (refused != refusals_.end() && now < refused->second.out_until)) {
      Broken(Invariant::kExcludedIsOut,
             absl::StrCat("node ", member.node(), " is in generation ",
                          world.generation()));
    }
  }
  for (const auto& [name, leaver] : leaves_) {
    const auto in = in_.find(name);
    if (in != in_.end() && in->second == leaver.incarnation) {
      Tested(Invariant::kLeavesForGood);
    }
  }
  if (!excluded_.empty() || !refusals_.empty()) {
    Tested(Invariant::kExcludedIsOut);
  }
  for (const auto& [name, until] : suspects_) {
    if (now >= until || members.contains(name) || !seats_.contains(name)) {
      continue;
    }
    Broken(Invariant::kLeaseHolds,
           absl::StrCat("generation ", world.generation(),
                        " is formed without node ", name, ", ",
                        absl::FormatDuration(until - now),
                        " before it is given up"));
  }
  suspects_.clear();
}

// A node that refused, was too slow, leaves or is lost no longer has a seat.
void InvariantChecker::FreeSeats(const Job& job, absl::Time now) {
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.seat() < 0) seats_.erase(node.node());
  }
}

// A node that refuses a world may get a seat again after a delay, up to three
// times.
void InvariantChecker::NoteRefused(const std::string& node, absl::Time now) {
  Refusals& refusals = refusals_[node];
  const uint64_t incarnation = in_[node];
  if (std::exchange(refusals.incarnation, incarnation) != incarnation) {
    refusals.count = 0;
  }
  if (++refusals.count > 3) {
    excluded_.try_emplace(node);
  } else {
    refusals.out_until = now + Limits{}.unreached_delay_waiting;
  }
}

void InvariantChecker::NoteWhoLeaves(const Job& job, absl::Time now,
                                     bool asked) {
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.state() != v1::NODE_STATE_DRAINING || node.incarnation() == 0) {
      continue;
    }
    Leaver& leaver = leaves_[node.node()];
    if (leaver.incarnation != node.incarnation()) {
      leaver = Leaver{node.incarnation()};
    }
    leaver.asked = leaver.asked || asked;
  }
}

}  // namespace rollcall::sim
