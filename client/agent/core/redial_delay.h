// RedialDelay: how long an agent waits until it dials again. The delay doubles
// with each attempt that fails; half of it is certain and half is chance, so
// that agents that failed together do not come back together.
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

  // An attempt has failed. `jitter`: drawn from 0 to 1. The delay after it is
  // at most `most`.
  absl::Duration Next(double jitter, absl::Duration most) {
    const absl::Duration delay =
        next_ * (0.5 + 0.5 * std::clamp(jitter, 0.0, 1.0));
    next_ = std::min(next_ * 2, most);
    return delay;
  }
  void AtMost(absl::Duration most) { next_ = std::min(next_, most); }
  // The daemon lets us in.
  void LetIn() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration next_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_REDIAL_DELAY_H_
