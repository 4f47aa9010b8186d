#include "client/agent/link/named_leader.h"

#include <algorithm>

#include "daemon/security/join_string.h"

namespace rollcall {

void NamedLeader::Hear(const v1::Refusal& refusal) {
  if (refusal.code() != v1::REFUSAL_CODE_NOT_LEADER) return;
  endpoints_.clear();
  for (const std::string& endpoint : refusal.leader_endpoints()) {
    if (endpoints_.size() == kEndpointsMax) break;
    if (!IsEndpoint(endpoint)) continue;
    if (loopback_only_ && !IsLoopback(endpoint)) continue;
    endpoints_.push_back(endpoint);
  }
  std::stable_partition(
      endpoints_.begin(), endpoints_.end(), [this](const std::string& one) {
        return std::count(given_.begin(), given_.end(), one) > 0;
      });
}

std::optional<std::string> NamedLeader::Next() {
  if (endpoints_.empty()) return std::nullopt;
  std::string next = endpoints_.front();
  endpoints_.pop_front();
  return next;
}

}  // namespace rollcall
