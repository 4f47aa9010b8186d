// Tenure: how long a leader may believe that it leads.
//
// etcd ends a lease no sooner than its time to live after the renewal reached
// it, and that was later than we sent it. So a leader that counts from its own
// sending, on a clock that runs about as fast as etcd's, and stops a little
// before, has stopped before anybody else can lead. No clock is compared with
// another's.
//
// Pure; one thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_TENURE_H_
#define ROLLCALL_DAEMON_JOURNAL_TENURE_H_

#include "absl/time/time.h"

namespace rollcall {

class Tenure {
 public:
  // The lease was granted, or renewed, by a call that was sent at `sent` and
  // answered that `left` is left of it; zero: it has ended. An answer that is
  // older than what is known changes nothing.
  void Renewed(absl::Time sent, absl::Duration left);
  // It was given up, or taken away.
  void End() { until_ = renew_at_ = absl::InfinitePast(); }

  // Before this the lease cannot have ended, as far as our clock can say; a
  // tenth is left for clocks that do not run alike.
  absl::Time until() const { return until_; }
  bool Holds(absl::Time now) const { return now < until_; }
  // When it is to be renewed: early enough for some to fail.
  absl::Time renew_at() const { return renew_at_; }

 private:
  absl::Time until_ = absl::InfinitePast();
  absl::Time renew_at_ = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_TENURE_H_
