#include "trainer/steps/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"

namespace rollcall {

double SpikeGuard::norm_max() const {
  if (!on() || Remembered() < kJudgedFrom) {
    return std::numeric_limits<double>::infinity();
  }
  const double median = Median();
  // Gradients of zero say nothing of those that follow.
  return median > 0 ? factor_ * median
                    : std::numeric_limits<double>::infinity();
}

void SpikeGuard::Took(double norm) {
  state_.norms[state_.taken % kWindow] = norm;
  ++state_.taken;
  state_.skipped_in_a_row = 0;
}

void SpikeGuard::Skipped() {
  ++state_.skipped;
  ++state_.skipped_in_a_row;
}

std::string SpikeGuard::Reason(double loss, double norm) const {
  if (!std::isfinite(loss)) return absl::StrFormat("loss %g", loss);
  if (!std::isfinite(norm)) {
    return absl::StrFormat("loss %g with a gradient of norm %g", loss, norm);
  }
  return absl::StrFormat(
      "a gradient of norm %.3g, above %g times %.3g, the median of the last %d",
      norm, factor_, Median(), Remembered());
}

int SpikeGuard::Remembered() const {
  return static_cast<int>(std::min<int64_t>(state_.taken, kWindow));
}

// Of an even number the lower one, which needs no rounding.
double SpikeGuard::Median() const {
  std::vector<double> norms(state_.norms, state_.norms + Remembered());
  if (norms.empty()) return 0;
  const auto middle = norms.begin() + (norms.size() - 1) / 2;
  std::nth_element(norms.begin(), middle, norms.end());
  return *middle;
}

}  // namespace rollcall
