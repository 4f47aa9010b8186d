#include "daemon/core/formation/gathering.h"

#include <algorithm>
#include <utility>

namespace rollcall {

void Gathering::Begin(bool at_once, absl::Time now, const Limits& limits) {
  BeginAgain(now, limits);
  last_call_ = LastCall(now);
  setups_ = SetupWait();
  at_once_ = at_once;
  fenced_until_ = absl::InfinitePast();
  fence_asked_until_ = absl::InfinitePast();
}

void Gathering::BeginAgain(absl::Time now, const Limits& limits) {
  since_ = now;
  join_until_ = now + limits.join_timeout;
}

Gathering::Verdict Gathering::Judge(size_t present,
                                    const v1::JobSettings& settings,
                                    uint64_t revision, absl::Time now,
                                    const Limits& limits) {
  const bool enough = present >= settings.nodes_min();
  last_call_.SetEnough(enough, now);
  if (!enough) {
    FenceOpened(now, limits);
    // This is a new gathering, so the last call counts again.
    at_once_ = false;
    return now >= join_until_ ? Verdict::kTimedOut : Verdict::kWait;
  }
  if (present < settings.nodes_max() && !at_once_ &&
      (now < last_call_.Ends(limits) || setups_.on())) {
    return Verdict::kWait;
  }
  const bool still_fenced =
      now < fence_asked_until_ && revision == fence_asked_at_revision_;
  return still_fenced ? Verdict::kWait : Verdict::kForm;
}

bool Gathering::FenceHolds(absl::Time opens) {
  return std::exchange(fenced_until_, opens) != opens;
}

void Gathering::FenceAsked(absl::Time until, uint64_t revision) {
  fence_asked_until_ = until;
  fence_asked_at_revision_ = revision;
}

void Gathering::FenceOpened(absl::Time now, const Limits& limits) {
  if (fenced_until_ == absl::InfinitePast()) return;
  join_until_ = now + limits.join_timeout;
  fenced_until_ = absl::InfinitePast();
  fence_asked_until_ = absl::InfinitePast();
}

absl::Duration Gathering::FenceLeft(absl::Time now) const {
  if (fence_.open()) return absl::ZeroDuration();
  return std::max(fenced_until_ - now, absl::ZeroDuration());
}

absl::Time Gathering::Due(bool enough, absl::Time now,
                          const Limits& limits) const {
  if (!enough) return setups_.on() ? setups_.until(limits) : join_until_;
  absl::Time call_ends = last_call_.Ends(limits);
  if (!at_once_) call_ends = std::max(call_ends, setups_.until(limits));
  if (fence_asked_until_ <= now) return call_ends;
  return call_ends > now ? std::min(fence_asked_until_, call_ends)
                         : fence_asked_until_;
}

}  // namespace rollcall
