// LoopState: what the loop's handlers read and change.
//
// Thread rule: the thread that runs Loop::Start, then the loop's own thread;
// inbox and outcome from any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_STATE_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_STATE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/inbox.h"
#include "daemon/base/machine.h"
#include "daemon/core/limits.h"
#include "daemon/core/log_quota.h"
#include "daemon/journal/journal.h"
#include "daemon/server/loop/state/access.h"
#include "daemon/server/loop/state/batch.h"
#include "daemon/server/loop/state/call_quota.h"
#include "daemon/server/loop/state/delayed_calls.h"
#include "daemon/server/loop/state/job_table.h"
#include "daemon/server/loop/state/logger.h"
#include "daemon/server/loop/state/loop_input.h"
#include "daemon/server/loop/state/loop_options.h"
#include "daemon/server/loop/state/loop_outcome.h"
#include "daemon/server/loop/state/session_table.h"
#include "daemon/server/loop/state/snapshots.h"
#include "daemon/server/loop/state/watch_list.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

struct LoopState {
  LoopState(LoopOptions options, JournalStore* journal, Logger& logger);
  // Not copied: watches and snapshots hold its address.
  LoopState(const LoopState&) = delete;
  LoopState& operator=(const LoopState&) = delete;

  absl::Time Now() const { return options.machine->Now(); }
  absl::Time WallNow() const { return options.machine->WallNow(); }
  bool Leads() const { return !options.leads || options.leads(); }
  // Reports to options.known that the caller has authenticated.
  void Known(const Caller& caller);
  // Calls `what` after this time; at once if it is zero, or if too many calls
  // are delayed (DelayedCalls).
  void Later(absl::Duration wait, std::function<void()> what);
  // Logs how many lines LogQuota has suppressed.
  void TellSuppressed(absl::Time now);
  // The number of connections that ended before they authenticated.
  uint64_t FailedConnections() const;
  // Adds the counts of refusals, the wall clock and the run's summary.
  v1::JobStatus WithCounters(v1::JobStatus status) const;
  // The status of a job, with the counts of refusals.
  absl::StatusOr<v1::JobStatus> FullStatus(const std::string& job,
                                           bool pings) const;

  const LoopOptions options;
  JournalStore* const journal;  // May be null.
  Logger& logger;
  Inbox<LoopInput> inbox;

  Access access;
  // Result of saving the tokens of the latest batch.
  absl::Status tokens_saved;
  LogQuota log_quota;
  // Delayed answers to refused peers.
  DelayedCalls delayed;
  JobTable jobs;
  WatchList watches;
  Snapshots snapshots;
  CallQuota status_calls{Limits::status_calls_per_viewer_max};
  SessionTable sessions;
  Batch batch;
  // Whether journal_changed was last called with OK.
  bool journal_works = true;
  bool quit = false;  // EndAll was called; nothing is decided any more.
  // Set if the journal already had the end of the only job: the time until
  // which the loop tells agents of that end.
  absl::Time over_at = absl::InfiniteFuture();
  // When jobs that were set back are read from the journal again.
  absl::Time take_back_at = absl::InfiniteFuture();
  LoopOutcome outcome;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOOP_STATE_H_
