// Job JSON: a job's status as the JSON object that `rollcall status --json`
// prints and `/status.json` returns.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_CODEC_JOB_JSON_H_
#define ROLLCALL_DAEMON_CODEC_JOB_JSON_H_

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

nlohmann::ordered_json StatusJson(const v1::JobStatus& status);

// One line of JSON; texts may contain any bytes.
std::string OneLine(const nlohmann::ordered_json& json);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CODEC_JOB_JSON_H_
