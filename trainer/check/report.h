// CheckReport: how a check's findings are said, as a table that people who know
// nccl-tests can read, or as JSON, an object a line.
//
// Pure but for `say`, which gets each line without its end.
#ifndef ROLLCALL_TRAINER_CHECK_REPORT_H_
#define ROLLCALL_TRAINER_CHECK_REPORT_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "trainer/check/verdict.h"

namespace rollcall {

class CheckReport {
 public:
  using Say = std::function<void(const std::string& line)>;
  CheckReport(bool json, Say say) : json_(json), say_(std::move(say)) {}

  // Who takes part, over what.
  void Begin(const Findings& findings);
  void Tell(const Findings& findings, const Row& row);
  void TellLinks(const Findings& findings);
  void End(const Findings& findings, const Verdict& verdict);

 private:
  const bool json_;
  const Say say_;
  std::optional<CollectiveKind> told_;  // The kind that the table is at.
};

// "Socket"; where ranks differ, "IB on 6 ranks, Socket on 2".
std::string TransportsOf(const Findings& findings);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_REPORT_H_
