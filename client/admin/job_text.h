// Job text: a job's state and its end in words and in JSON.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_JOB_TEXT_H_
#define ROLLCALL_CLIENT_ADMIN_JOB_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// `lost_lease` for REASON_CODE_LOST_LEASE, and so on: what programs read.
std::string Word(v1::ReasonCode code);
std::string Word(v1::JobState state);
std::string Word(v1::NodeState state);

// `status --json`.
nlohmann::ordered_json StatusJson(const v1::JobStatus& status);

// One line of JSON, whatever bytes the texts hold.
std::string OneLine(const nlohmann::ordered_json& json);

// `status` for people: a table of several lines, ending with a newline.
std::string StatusTable(const v1::JobStatus& status);

// What the nodes should have in common and do not, a block of lines each;
// empty: nothing.
std::string DifferencesTable(const v1::JobStatus& status);

// `status --pings`: a matrix by node rank up to 16 nodes, and the pairs that
// did not connect, or in larger worlds the slowest.
std::string PingsTable(const v1::Pings& pings);

// How many connections ended before they authenticated, and in words how.
uint64_t FailedConnections(const v1::JobStatus& status);
std::string FailedText(const v1::JobStatus& status);

// Who is missing: `waiting for 2 of 4 nodes: node3, node4`.
std::string WaitingText(const v1::JobStatus& status);

// Who has not finished while others have; empty: nobody has finished.
std::string StragglersText(const v1::JobStatus& status);

// What became of a world: `generation 2: lost local-2 (...); 3 nodes, 6 ranks`.
std::string ReformText(const v1::JobStatus& status);

// Why a run failed, cause first, then the rank's last stderr lines. Several
// lines without a last newline.
std::string FailureText(const v1::End& end);

// Of a job that lingers: `ranks that still live on a, b`.
std::string LeftAliveText(const v1::JobStatus& status);

// `35 s`, `4 min 10 s`.
std::string ShortDuration(absl::Duration duration);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_JOB_TEXT_H_
