// DelayedCalls: delayed answers, so that a peer that is refused repeatedly is
// slowed down. At most kMax answers are delayed; further ones are given at
// once.
//
// Thread rule: the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_DELAYED_CALLS_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_DELAYED_CALLS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"

namespace rollcall {

class DelayedCalls {
 public:
  static constexpr size_t kMax = 4096;

  // Calls `what` once: at `at`, or at once if `at` is not in the future.
  void Add(absl::Time now, absl::Time at, std::function<void()> what) {
    if (at <= now || calls_.size() >= kMax) return what();
    calls_.emplace(at, std::move(what));
  }

  // Makes the calls that are due, in order. They may add others.
  void Run(absl::Time now) {
    while (!calls_.empty() && calls_.begin()->first <= now) {
      const std::function<void()> what = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      what();
    }
  }

  absl::Time NextDue() const {
    return calls_.empty() ? absl::InfiniteFuture() : calls_.begin()->first;
  }

 private:
  std::multimap<absl::Time, std::function<void()>> calls_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_DELAYED_CALLS_H_
