// RankStarts: whether the ranks of this node are expected to link or to publish
// a step after their start, and how long that may take.
//
// They are expected to do so in worlds for which the daemon has sent RanksLink:
// ranks of over half of the nodes link or publish steps. No progress is
// expected of a plain command that does neither.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_RANK_STARTS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_RANK_STARTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "daemon/base/durations.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class RankStarts {
 public:
  // A rank has linked or published its first step, `took` after its start.
  void Took(absl::Duration took) {
    took_ = std::max(took, took_.value_or(took));
  }
  // The longest of these times in this agent's life; unset: no rank has linked
  // or published a step.
  const std::optional<absl::Duration>& took() const { return took_; }

  // Takes RanksLink. Returns false if it is a repetition, which restarts no
  // clock.
  bool Take(const v1::RanksLink& link) {
    if (link_.has_value() && link_->generation() == link.generation()) {
      return false;
    }
    link_ = link;
    return true;
  }
  // The agent attends another run.
  void Forget() { link_.reset(); }

  // `--hang-timeout 0` disables this check too.
  bool Expects(uint64_t generation, const Limits& limits) const {
    return link_.has_value() &&
           (link_->generation() == 0 || link_->generation() == generation) &&
           limits.hang_timeout > absl::ZeroDuration() &&
           limits.start_timeout > absl::ZeroDuration();
  }
  absl::Duration Timeout(const Limits& limits) const {
    return HasTimeout() ? FromProto(link_->start_timeout())
                        : limits.start_timeout;
  }
  // The time at which a rank that started at `started_at` counts as stalled.
  // Requires Expects(). An older daemon sends no timeout. The local timeout
  // does not include the time that the starts of other ranks took, so it counts
  // from `now`.
  absl::Time StalledAt(absl::Time started_at, const Limits& limits,
                       absl::Time now) const {
    return std::max(now, (HasTimeout() ? started_at : now) + Timeout(limits));
  }

 private:
  bool HasTimeout() const {
    return link_.has_value() && link_->has_start_timeout();
  }

  std::optional<absl::Duration> took_;
  std::optional<v1::RanksLink> link_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_RANK_STARTS_H_
