#include "daemon/core/failures/slow_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace rollcall {

std::optional<SlowSteps::Change> SlowSteps::Take(uint64_t step,
                                                 absl::Time now) {
  if (!seen_.has_value()) {
    seen_ = since_step_ = step;
    since_ = now;
    return std::nullopt;
  }
  if (step <= *seen_) return std::nullopt;
  seen_ = step;
  const absl::Duration length = now - since_;
  if (length < kSpan) return std::nullopt;
  const double steps = static_cast<double>(step - since_step_);
  since_step_ = step;
  since_ = now;
  return TakeSpan(length / steps, length);
}

std::optional<SlowSteps::Change> SlowSteps::TakeSpan(absl::Duration step,
                                                     absl::Duration length) {
  std::vector<absl::Duration> sorted(spans_.begin(), spans_.end());
  const auto middle =
      sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const bool known = sorted.size() >= kSpansMin;
  const absl::Duration median = known ? *middle : absl::ZeroDuration();
  if (known && step >= median * kFactor) {
    last_was_slow_ = true;
    slow_for_ += length;
    ++slow_spans_;
    if (slow_.has_value() || slow_for_ < kSlowFor || slow_spans_ < 2) {
      return std::nullopt;
    }
    slow_ = Change{true, step, median};
    return slow_;
  }
  spans_.push_back(step);
  if (spans_.size() > kSpansMax) spans_.pop_front();
  if (std::exchange(last_was_slow_, false)) return std::nullopt;
  slow_for_ = absl::ZeroDuration();
  slow_spans_ = 0;
  if (!std::exchange(slow_, std::nullopt).has_value()) return std::nullopt;
  return Change{false, step, median};
}

}  // namespace rollcall
