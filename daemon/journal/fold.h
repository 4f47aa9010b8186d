// Fold: applies one entry to a run's state. Every journal uses it, also the
// simulator's. Pure; any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_FOLD_H_
#define ROLLCALL_DAEMON_JOURNAL_FOLD_H_

#include "absl/status/status.h"
#include "daemon/core/events.h"
#include "daemon/core/job/job.h"

namespace rollcall {

// Leaves `state.run` unchanged. INVALID_ARGUMENT: the entry's body is not valid
// for its kind. FAILED_PRECONDITION: the entry commits a generation that is not
// the last proposed one. After an error `state` must not be used any more.
absl::Status Fold(const Journal& entry, JournalState& state);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_FOLD_H_
