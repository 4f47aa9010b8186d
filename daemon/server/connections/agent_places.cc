#include "daemon/server/connections/agent_places.h"

namespace rollcall {

std::optional<AgentPlaces::Id> AgentPlaces::GivesWayTo(
    const AgentRight& right) const {
  if (!idle_.empty()) return idle_.begin()->second;
  auto most = shares_.end();
  for (auto at = shares_.begin(); at != shares_.end(); ++at) {
    if (at->first.empty()) continue;
    if (most == shares_.end() || at->second.size() > most->second.size()) {
      most = at;
    }
  }
  if (most == shares_.end()) return std::nullopt;
  const Share& share = most->second;
  const bool too_large = share.size() > places_ / 2;
  if (!right.returns && (most->first == right.token || !too_large)) {
    return std::nullopt;
  }
  return share.came.empty() ? *share.returned.begin() : *share.came.rbegin();
}

bool AgentPlaces::Attend(Id id, const AgentRight& right) {
  const auto [at, made] = agents_.try_emplace(id);
  Agent& agent = at->second;
  if (!made && !agent.expires.has_value()) return false;
  if (!made) idle_.erase({*agent.expires, id});
  agent = {right, std::nullopt};
  Share& share = shares_[right.token];
  (right.returns ? share.returned : share.came).insert(id);
  return true;
}

void AgentPlaces::StreamEnded(Id id, absl::Time expires) {
  const auto at = agents_.find(id);
  if (at == agents_.end() || at->second.expires.has_value()) return;
  LeaveShare(id, at->second);
  at->second.expires = expires;
  idle_.emplace(expires, id);
}

void AgentPlaces::Remove(Id id) {
  const auto at = agents_.find(id);
  if (at == agents_.end()) return;
  if (at->second.expires.has_value()) {
    idle_.erase({*at->second.expires, id});
  } else {
    LeaveShare(id, at->second);
  }
  agents_.erase(at);
}

std::optional<std::pair<absl::Time, AgentPlaces::Id>> AgentPlaces::NextExpiry()
    const {
  if (idle_.empty()) return std::nullopt;
  return *idle_.begin();
}

void AgentPlaces::LeaveShare(Id id, const Agent& agent) {
  const auto at = shares_.find(agent.right.token);
  at->second.came.erase(id);
  at->second.returned.erase(id);
  if (at->second.size() == 0) shares_.erase(at);
}

}  // namespace rollcall
