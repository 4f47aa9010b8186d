#include "client/agent/core/endpoint_round.h"

#include <algorithm>

namespace rollcall {

size_t EndpointRound::Next() {
  if (found_.empty()) return 0;
  last_ = next_++ % found_.size();
  return last_;
}

absl::Duration EndpointRound::patience() const {
  constexpr absl::Duration kFirst = absl::Seconds(3);
  constexpr absl::Duration kMost = absl::Seconds(20);
  if (found_.empty() || next_ == 0) return kFirst;
  const size_t round = std::min<size_t>((next_ - 1) / found_.size(), 3);
  return std::min(kFirst * (1 << round), kMost);
}

bool EndpointRound::Failed(bool stranger) {
  if (found_.empty()) return false;
  found_[last_] = stranger ? Found::kStranger : Found::kNobody;
  if (welcomed_) return false;
  const auto count = [this](Found what) {
    return std::count(found_.begin(), found_.end(), what);
  };
  return count(Found::kUntried) == 0 && count(Found::kStranger) > 0;
}

}  // namespace rollcall
