// LeaderLease: how long a leader may believe that it leads.
//
// etcd ends a lease no sooner than its time to live after the renewal has
// reached etcd, which is later than this daemon sent it. The leader counts from
// the time of sending, on a clock that runs about as fast as etcd's, and stops
// a little earlier. So it has stopped before another daemon can lead. Clocks of
// different machines are never compared.
//
// Pure; one thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_LEADER_LEASE_H_
#define ROLLCALL_DAEMON_JOURNAL_LEADER_LEASE_H_

#include "absl/time/time.h"

namespace rollcall {

class LeaderLease {
 public:
  // The lease was granted or renewed by a call that was sent at `sent`. `left`:
  // the remaining time in the answer; zero: the lease has ended. An answer that
  // is older than an earlier one changes nothing.
  void Renewed(absl::Time sent, absl::Duration left);
  // The lease was given up or lost.
  void End() { until_ = renew_at_ = absl::InfinitePast(); }

  // The lease cannot have ended before this time of the local clock; a tenth of
  // the time is a margin for clocks of different speeds.
  absl::Time until() const { return until_; }
  bool Holds(absl::Time now) const { return now < until_; }
  // When to renew: early enough for some attempts to fail.
  absl::Time renew_at() const { return renew_at_; }

 private:
  absl::Time until_ = absl::InfinitePast();
  absl::Time renew_at_ = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_LEADER_LEASE_H_
