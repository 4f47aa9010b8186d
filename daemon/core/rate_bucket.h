// RateBucket: a rate with a burst, stored as the time at which the whole burst
// is available again. Pure: the caller passes in the time, which never goes
// backwards. One thread.
#ifndef ROLLCALL_DAEMON_CORE_RATE_BUCKET_H_
#define ROLLCALL_DAEMON_CORE_RATE_BUCKET_H_

#include <cstdint>

#include "absl/time/time.h"

namespace rollcall {

class RateBucket {
 public:
  // Both above 0.
  RateBucket(uint32_t per_second, uint32_t burst);

  // When the next one is allowed.
  absl::Time ready_at() const { return full_at_ + one_ - whole_; }
  absl::Time full_at() const { return full_at_; }
  // Takes one that is allowed.
  void Take(absl::Time now);
  // Takes so many whether or not they are allowed; at most `debt` more than the
  // burst. Returns false if more were taken than were allowed.
  bool Charge(uint64_t count, uint32_t debt, absl::Time now);
  // How many were taken that are not available again.
  uint64_t Taken(absl::Time now) const;

 private:
  absl::Duration one_;
  absl::Duration whole_;
  absl::Time full_at_ = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_RATE_BUCKET_H_
