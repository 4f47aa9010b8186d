// Event text: a line of the event log, and a run's summary, for users.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_EVENT_TEXT_H_
#define ROLLCALL_CLIENT_ADMIN_EVENT_TEXT_H_

#include <string>

#include "rollcall/v1/admin.pb.h"

namespace rollcall {

// A JSON line of Admin.Events as `2026-11-27T20:01:02.345Z run generation=2
// ...`. A line that is no such object is returned as it is, made printable.
std::string EventText(const std::string& json);

// `generation 3 began at step 1, and step 12000 had been reached before; ...`;
// empty: it did not.
std::string ResumedText(const v1::JobStatus& status);

// How long a job's run took, which interruptions cost it how much time, and the
// most memory that a rank had; several lines, without a newline at the end.
// Empty: no world has run.
std::string SummaryText(const v1::JobStatus& status);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_EVENT_TEXT_H_
