// Metrics: a snapshot as Prometheus text (format 0.0.4). Names begin with
// `rollcall_`, times are in seconds, and names of counters end in `_total`.
//
// Labels are bounded: jobs by Limits::jobs_per_daemon_max, states and reasons
// by their enums. Nodes are not labels, because a job may have thousands of
// them, and each node chooses its name.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_WEB_METRICS_H_
#define ROLLCALL_DAEMON_SERVER_WEB_METRICS_H_

#include <string>
#include <string_view>

#include "daemon/server/loop/state/snapshots.h"

namespace rollcall {

std::string MetricsText(const Snapshot& snapshot);

// A label's value with escapes, without the quotes around it.
std::string EscapedLabel(std::string_view value);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_WEB_METRICS_H_
