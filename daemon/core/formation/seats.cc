#include "daemon/core/formation/seats.h"

#include <algorithm>

#include "daemon/core/network_plan/comparison/fabric.h"

namespace rollcall {
namespace {

Candidate CandidateOf(const Node& node) {
  return {node.name(), node.seat, node.hello.launcher(),
          NvlinkDomain(node.hello.facts())};
}

}  // namespace

absl::Time Seats::HeldUntil(const Node& node) const {
  if (node.seat >= 0) return absl::InfinitePast();
  return std::max(newcomers_.HoldOf(node.name(), now_, limits_).until,
                  probes_.HeldUntil(node.name()));
}

std::vector<Candidate> Seats::Candidates(size_t nodes_min) const {
  std::vector<Candidate> candidates;
  std::vector<const Node*> held;
  candidates.reserve(membership_.present());
  for (const auto& [name, node] : membership_.nodes()) {
    if (!MayHave(node)) continue;
    if (IsHeld(node)) {
      held.push_back(&node);
    } else {
      candidates.push_back(CandidateOf(node));
    }
  }
  // Nodes that flap attended last, so they come last.
  std::stable_sort(held.begin(), held.end(), [](const Node* a, const Node* b) {
    return a->attended_at < b->attended_at;
  });
  for (const Node* node : held) {
    if (candidates.size() >= nodes_min) break;
    candidates.push_back(CandidateOf(*node));
  }
  return candidates;
}

absl::Time Seats::NewcomerDue(
    const v1::World& world, size_t nodes_max,
    const std::function<bool(const std::string&)>& leaves) const {
  absl::Time due = absl::InfiniteFuture();
  if (static_cast<size_t>(world.members_size()) >= nodes_max) return due;
  for (const auto& [name, node] : membership_.nodes()) {
    if (node.member() || !MayHave(node) || leaves(name)) continue;
    due = std::min(due, HeldUntil(node));
    if (due <= now_) break;
  }
  return due;
}

std::vector<std::string> Seats::NewcomersNow() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : membership_.nodes()) {
    if (!node.member() && MayHave(node) && !IsHeld(node)) names.push_back(name);
  }
  return names;
}

}  // namespace rollcall
