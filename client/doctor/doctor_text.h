// Doctor text: findings as a table for people and as JSON for programs.
//
// Pure; any thread. Texts from devices and libraries are cleaned for a
// terminal.
//
// The JSON object:
//   node       the node's host name
//   verdict    severity of the worst finding: "ok", "unknown", "warning",
//              "retryable", "fatal"
//   exit_code  what `rollcall doctor` exits with: 0, 10, 10, 20, 30
//   counts     {"fatal": N, "retryable": N, "warning": N, "unknown": N,
//              "ok": N, "not applicable": N}
//   findings   all of them, worst first, each with: check, severity, subject,
//              found, expected, why, mend (texts; may be empty). `check` and
//              `severity` are stable, the other texts are for people.
#ifndef ROLLCALL_CLIENT_DOCTOR_DOCTOR_TEXT_H_
#define ROLLCALL_CLIENT_DOCTOR_DOCTOR_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/doctor/finding.h"
#include "nlohmann/json_fwd.hpp"

namespace rollcall {

// One aligned line per finding, worst first; then how to fix each kind of
// problem; last, the count of each severity. `all`: also show findings that are
// ok or not applicable. Ends with a newline.
std::string DoctorTable(const std::vector<Finding>& findings, bool all);

nlohmann::ordered_json DoctorJson(absl::string_view node,
                                  const std::vector<Finding>& findings);

// `subject: found; expected ...; mend`, for a log line.
std::string OneLineText(const Finding& finding);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_DOCTOR_DOCTOR_TEXT_H_
