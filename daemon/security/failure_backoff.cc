#include "daemon/security/failure_backoff.h"

#include <algorithm>

namespace rollcall {

absl::Duration FailureBackoff::Failed(const std::string& address,
                                      absl::Time now) {
  Forget(now);
  if (by_age_.size() >= kAddressesMax && !entries_.contains(address)) {
    ForgetOldest();
  }
  Entry& entry = entries_[address];
  if (entry.failures > 0) by_age_.erase({entry.last, address});
  // The bound is far above the number of failures that give the longest delay.
  entry.failures = std::min(entry.failures + 1, 1000);
  entry.last = now;
  by_age_.emplace(now, address);
  const int beyond = entry.failures - kFree;
  if (beyond <= 0) return absl::ZeroDuration();
  return std::min(kDelayMin * (1 << std::min(beyond - 1, 10)), kDelayMax);
}

int FailureBackoff::failures(const std::string& address) const {
  const auto at = entries_.find(address);
  return at == entries_.end() ? 0 : at->second.failures;
}

void FailureBackoff::Forget(absl::Time now) {
  while (!by_age_.empty() && by_age_.begin()->first + kForgotten <= now) {
    ForgetOldest();
  }
}

void FailureBackoff::ForgetOldest() {
  entries_.erase(by_age_.begin()->second);
  by_age_.erase(by_age_.begin());
}

}  // namespace rollcall
