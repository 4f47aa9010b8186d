// RunRecord: a run as one value, as journals store it.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_RUN_RECORD_H_
#define ROLLCALL_DAEMON_JOURNAL_RUN_RECORD_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/journal/journal.h"

namespace rollcall {

// The result does not contain the job's name. It is compressed, because names
// and addresses repeat. UNAVAILABLE: not enough memory to compress it.
absl::StatusOr<std::string> PackRun(const JournaledRun& run);

// FAILED_PRECONDITION: these bytes are not a result of PackRun, or expand to
// more than a run can have.
absl::StatusOr<JournaledRun> UnpackRun(const std::string& job,
                                       const std::string& bytes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_RUN_RECORD_H_
