// RedialDelay: how long an agent waits before it dials again. The delay doubles
// with each failed attempt; half of it is random, so that agents that failed
// together do not dial together.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_REDIAL_DELAY_H_
#define ROLLCALL_CLIENT_AGENT_CORE_REDIAL_DELAY_H_

#include <algorithm>

#include "absl/time/time.h"

namespace rollcall {

class RedialDelay {
 public:
  explicit RedialDelay(absl::Duration first) : first_(first), next_(first) {}

  // An attempt has failed. `jitter` is uniform in [0, 1). Returns the delay;
  // the next one is at most `most`.
  absl::Duration Next(double jitter, absl::Duration most) {
    const absl::Duration delay =
        next_ * (0.5 + 0.5 * std::clamp(jitter, 0.0, 1.0));
    next_ = std::min(next_ * 2, most);
    return delay;
  }
  void AtMost(absl::Duration most) { next_ = std::min(next_, most); }
  // The daemon has welcomed the agent.
  void LetIn() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration next_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_REDIAL_DELAY_H_
