#include "daemon/core/rate_bucket.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace rollcall {

RateBucket::RateBucket(uint32_t per_second, uint32_t burst)
    : one_(absl::Seconds(1) / per_second), whole_(one_ * burst) {}

void RateBucket::Take(absl::Time now) {
  CHECK_LE(ready_at(), now);
  full_at_ = std::max(full_at_, now) + one_;
}

bool RateBucket::Charge(uint64_t count, uint32_t debt, absl::Time now) {
  full_at_ = std::min(std::max(full_at_, now) + one_ * count,
                      now + whole_ + one_ * debt);
  return full_at_ <= now + whole_;
}

uint64_t RateBucket::Taken(absl::Time now) const {
  return static_cast<uint64_t>((std::max(full_at_, now) - now) / one_);
}

}  // namespace rollcall
