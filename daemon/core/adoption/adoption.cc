#include "daemon/core/adoption/adoption.h"

#include <utility>

#include "daemon/base/check.h"

namespace rollcall {

Adoption::Taken Adoption::Take(const Attend& attend,
                               const v1::JobSettings& settings, absl::Time now,
                               const Limits& limits) {
  // A token proves nothing about a run. So without a credential of that run
  // there is nothing to wait for.
  if (!possible_ || !attend.hello.has_node_credential()) return {};
  // Agents that come and go do not extend the wait.
  if (until_ == absl::InfiniteFuture()) until_ = now + limits.reattach_grace;
  const std::optional<SessionId> older = claims_.StreamOf(attend.hello.node());
  if (!attend.commit_proven || claimants_.size() >= Limits::nodes_max ||
      !claims_.Take(attend.session, attend.hello, attend.epoch,
                    settings.nodes_min(), settings.nodes_max())) {
    return {Answer::kRedial, std::nullopt};
  }
  if (older.has_value()) Drop(*older);
  Attend& kept = claimants_[attend.session] = attend;
  kept.hello.mutable_resume_state()->clear_world();
  kept.hello.mutable_resume_state()->clear_world_commit();
  return {Answer::kKept, older};
}

void Adoption::Drop(SessionId session) {
  if (claimants_.erase(session) > 0) claims_.Drop(session);
}

std::vector<Attend> Adoption::TakeAll() {
  claims_.Clear();
  End();
  std::vector<Attend> taken;
  for (auto& [session, claim] : std::exchange(claimants_, {})) {
    taken.push_back(std::move(claim));
  }
  return taken;
}

void Adoption::CheckInvariants() const {
  CHECK_LE(claimants_.size(), Limits::nodes_max);
  CHECK_LE(claims_.size(), Limits::claimed_worlds_max);
}

}  // namespace rollcall
