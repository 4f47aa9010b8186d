#include "client/agent/core/dial_failures.h"

#include <cstddef>

namespace rollcall {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(1);
constexpr absl::Duration kInterval = absl::Seconds(5);
// Endpoints come from the join string and from daemons that name their leader.
constexpr size_t kEndpointsMax = 64;

}  // namespace

void DialFailures::Lost(absl::Time now) {
  since_ = now;
  said_at_ = absl::InfinitePast();
  said_.clear();
}

void DialFailures::LetIn() { since_ = absl::InfiniteFuture(); }

bool DialFailures::Failed(const std::string& endpoint,
                          const std::string& reason, absl::Time now) {
  if (now < since_ + kSilence || now < said_at_ + kInterval) return false;
  const auto at = said_.find(endpoint);
  if (at != said_.end() && at->second == reason) return false;
  if (at == said_.end() && said_.size() >= kEndpointsMax) {
    said_.erase(said_.begin());
  }
  said_[endpoint] = reason;
  said_at_ = now;
  return true;
}

absl::Time DialFailures::silent_until() const {
  return said_at_ == absl::InfinitePast() ? since_ + kInterval
                                          : absl::InfiniteFuture();
}

}  // namespace rollcall
