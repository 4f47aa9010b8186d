// RunLine: one line with a job's progress, for a terminal of any width.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_RUN_LINE_H_
#define ROLLCALL_CLIENT_ADMIN_RUN_LINE_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "client/admin/step_track.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

// `[####----]  600/1200  50%  loss 3.2100  6688 tokens/s  2 min 5 s left  3
// ranks on 3 of 4 nodes  generation 2  local-3 is missing`, at most `columns`
// wide. On a narrow terminal the less important parts are left out. A missing
// or slow node is the most important part, then the step.
std::string RunLine(const v1::JobStatus& status, const StepTrack& track,
                    absl::Time now, size_t columns);

// The nodes that are lost, silent or behind, and whether no step is made;
// empty: no problem is known.
std::string TroubleText(const v1::JobStatus& status, const StepTrack& track,
                        absl::Time now);

// `3 ranks on 3 of 4 nodes`.
std::string WorldText(const v1::JobStatus& status);

// A number in at most eight characters.
std::string ShortNumber(double value);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_RUN_LINE_H_
