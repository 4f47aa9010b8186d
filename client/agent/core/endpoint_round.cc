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
  constexpr absl::Duration kMax = absl::Seconds(20);
  if (found_.empty() || next_ == 0) return kFirst;
  const size_t round = std::min<size_t>((next_ - 1) / found_.size(), 3);
  return std::min(kFirst * (1 << round), kMax);
}

bool EndpointRound::Failed(bool other_daemon) {
  if (found_.empty()) return false;
  found_[last_] = other_daemon ? Found::kOtherDaemon : Found::kNobody;
  if (welcomed_) return false;
  const auto count = [this](Found what) {
    return std::count(found_.begin(), found_.end(), what);
  };
  return count(Found::kUntried) == 0 && count(Found::kOtherDaemon) > 0;
}

}  // namespace rollcall
