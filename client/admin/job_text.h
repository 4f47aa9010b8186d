// Job text: a job's state and its end as text. job_table.cc has the tables of
// `status`, job_text.cc the single lines, daemon/codec/job_json the JSON.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_JOB_TEXT_H_
#define ROLLCALL_CLIENT_ADMIN_JOB_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/codec/job_json.h"
#include "daemon/core/status_words.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The output of `status` for users: several lines, ending with a newline.
std::string StatusTable(const v1::JobStatus& status);

// Facts that should be equal on all nodes but differ, a few lines for each;
// empty: none.
std::string DifferencesTable(const v1::JobStatus& status);
// The latest changes of all nodes' facts, a line each; empty: none.
std::string ChangesTable(const v1::JobStatus& status);

// The output of `status --pings`: for up to 16 nodes a matrix by node rank and
// the pairs that did not connect; for larger worlds the slowest pairs.
std::string PingsTable(const v1::Pings& pings);

// How many connections ended before they authenticated, and a text with the
// reasons.
uint64_t FailedConnections(const v1::JobStatus& status);
std::string FailedText(const v1::JobStatus& status);

// What a gathering waits for: `waiting: 1 node is here; 1 more to begin, room
// for 3 more; missing: node3`, and the nodes that attend but get no seat.
std::string WaitingText(const v1::JobStatus& status);

// The nodes that a forming world waits for: `forming generation 2; not prepared
// yet: b, c`; empty: the job is not forming, or all members have prepared.
std::string UnpreparedText(const v1::JobStatus& status);

// The nodes that have not finished while others have; empty: none has finished.
std::string StragglersText(const v1::JobStatus& status);

// Why the current world was formed: `generation 2: lost local-2 (...); 3 nodes,
// 6 ranks`.
std::string ReformText(const v1::JobStatus& status);

// Why a run failed: the cause first, then the rank's last stderr lines. Several
// lines, without a newline at the end.
std::string FailureText(const v1::End& end);

// For a job that lingers: `ranks that still live on a, b`.
std::string LeftAliveText(const v1::JobStatus& status);

// `35 s`, `4 min 10 s`, `3 h 5 min`.
std::string ShortDuration(absl::Duration duration);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_JOB_TEXT_H_
