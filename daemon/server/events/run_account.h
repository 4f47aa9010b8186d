// RunAccount: what a run's time was spent on, from the run's events.
//
// The events are those of the event log (event_log.h), so a daemon that starts
// again computes the same from the file.
//
// A value, pure. Thread rule: one thread at a time.
#ifndef ROLLCALL_DAEMON_SERVER_EVENTS_RUN_ACCOUNT_H_
#define ROLLCALL_DAEMON_SERVER_EVENTS_RUN_ACCOUNT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "daemon/server/events/log_line.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class RunAccount {
 public:
  static constexpr int kInterruptionsMax = 32;

  // One event of the run (see log_line.h), in order. `at`: the wall clock. If
  // it was set back, the time since the last event counts as zero.
  void Take(const LogFields& event, absl::Time at);

  v1::RunSummary Summary(absl::Time wall_now) const;

 private:
  void Started(uint64_t generation, bool runs, absl::Time at);
  void Runs(uint64_t generation, absl::Time at);
  void Interrupted(uint64_t generation, const std::string& code,
                   const std::string& reason, absl::Time at);
  void Ended(absl::Time at);

  void SetBack(absl::Duration by);

  // Only its worlds and interruptions.
  v1::RunSummary summary_;
  absl::Time last_at_ = absl::InfinitePast();
  absl::Time began_ = absl::InfiniteFuture();
  absl::Time ended_ = absl::InfiniteFuture();
  // The running world; 0: none runs.
  uint64_t generation_ = 0;
  absl::Time runs_since_;
  // The last interruption, until a world runs again; infinite: one runs, or
  // none ever ran.
  absl::Time stopped_since_ = absl::InfiniteFuture();
  absl::Duration running_ = absl::ZeroDuration();
  absl::Duration stopped_ = absl::ZeroDuration();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_EVENTS_RUN_ACCOUNT_H_
