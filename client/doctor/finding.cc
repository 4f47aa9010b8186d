#include "client/doctor/finding.h"

#include <algorithm>

namespace rollcall {

absl::string_view Word(Severity severity) {
  switch (severity) {
    case Severity::kNotApplicable:
      return "not applicable";
    case Severity::kOk:
      return "ok";
    case Severity::kUnknown:
      return "unknown";
    case Severity::kWarning:
      return "warning";
    case Severity::kRetryable:
      return "retryable";
    case Severity::kFatal:
      return "fatal";
  }
  return "unknown";
}

Severity Worst(const std::vector<Finding>& findings) {
  Severity worst = Severity::kNotApplicable;
  for (const Finding& finding : findings) {
    worst = std::max(worst, finding.severity);
  }
  return worst;
}

int ExitCode(Severity worst) {
  switch (worst) {
    case Severity::kNotApplicable:
    case Severity::kOk:
      return 0;
    case Severity::kUnknown:
    case Severity::kWarning:
      return 10;
    case Severity::kRetryable:
      return 20;
    case Severity::kFatal:
      return 30;
  }
  return 10;
}

std::vector<Finding> WorstFirst(std::vector<Finding> findings) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) {
                     return a.severity > b.severity;
                   });
  return findings;
}

std::map<Severity, int> Count(const std::vector<Finding>& findings) {
  std::map<Severity, int> count = {
      {Severity::kNotApplicable, 0}, {Severity::kOk, 0},
      {Severity::kUnknown, 0},       {Severity::kWarning, 0},
      {Severity::kRetryable, 0},     {Severity::kFatal, 0}};
  for (const Finding& finding : findings) ++count[finding.severity];
  return count;
}

}  // namespace rollcall
