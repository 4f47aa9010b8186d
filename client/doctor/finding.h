// Finding: the result of one check for one subject: a device, an interface, a
// folder or the node as a whole.
//
// Values only; any thread.
#ifndef ROLLCALL_CLIENT_DOCTOR_FINDING_H_
#define ROLLCALL_CLIENT_DOCTOR_FINDING_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rollcall {

// In ascending order.
enum class Severity {
  // The node has nothing to check.
  kNotApplicable,
  kOk,
  // The fact could not be found out. Never counted as ok.
  kUnknown,
  // A run works, but slower or with less than the node should have.
  kWarning,
  // A run would fail or lose a device now, but the problem may end by itself or
  // after a reset, so a later retry may succeed.
  kRetryable,
  // A person must fix something before this node can run ranks.
  kFatal,
};

struct Finding {
  // Stable: programs compare it.
  std::string check;
  Severity severity = Severity::kUnknown;
  // "node", "eth0", "mlx5_0 port 1", "gpu 3", "/data".
  std::string subject;
  std::string found;
  // These three are empty if nothing is wrong. `mend`: how to fix it.
  std::string expected;
  std::string why;
  std::string mend;

  bool operator==(const Finding&) const = default;
};

// "ok", "warning", "not applicable"...
absl::string_view Word(Severity severity);

// The highest severity of the findings; kNotApplicable if there are none.
Severity Worst(const std::vector<Finding>& findings);

// The exit code: 0; 10: a warning, or something unknown; 20: retryable; 30:
// fatal.
int ExitCode(Severity worst);

// Sorts stably, worst first.
std::vector<Finding> WorstFirst(std::vector<Finding> findings);

// The number of findings of each severity; has an entry for every severity.
std::map<Severity, int> Count(const std::vector<Finding>& findings);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_DOCTOR_FINDING_H_
