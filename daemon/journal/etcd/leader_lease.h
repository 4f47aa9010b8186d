// LeaderLease: how long a leader may believe that it leads.
//
// etcd counts a lease's time to live from the arrival of the renewal, and does
// not end the lease before that time has passed. The leader counts from the
// moment at which it sent the renewal, which is earlier, on a clock that runs
// about as fast as etcd's, and stops a little before the end. So it has stopped
// before another daemon can lead. Clocks of different machines are never
// compared.
//
// Pure; one thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_ETCD_LEADER_LEASE_H_
#define ROLLCALL_DAEMON_JOURNAL_ETCD_LEADER_LEASE_H_

#include "absl/time/time.h"

namespace rollcall {

class LeaderLease {
 public:
  // The lease was granted or renewed by a call that was sent at `sent`. `left`:
  // the remaining time in the answer; zero: the lease has ended. An answer
  // changes nothing if an earlier one allows a longer time.
  void Renewed(absl::Time sent, absl::Duration left);
  // The lease was given up or lost.
  void End() { until_ = renew_at_ = absl::InfinitePast(); }

  // The lease cannot have ended before this time of the local clock; a tenth of
  // the time is a margin for clocks of different speeds.
  absl::Time until() const { return until_; }
  bool Holds(absl::Time now) const { return now < until_; }
  // When to renew the lease. It is so early that a few attempts may fail.
  absl::Time renew_at() const { return renew_at_; }

 private:
  absl::Time until_ = absl::InfinitePast();
  absl::Time renew_at_ = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_ETCD_LEADER_LEASE_H_
