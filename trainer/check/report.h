// CheckReport: prints a check's findings, as a table in nccl-tests' format or
// as JSON, one object per line.
//
// Pure except for `say`, which is called with each line, without its newline.
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

  // Prints the ranks, the nodes and the transport.
  void Begin(const Findings& findings);
  void Tell(const Findings& findings, const Row& row);
  void TellLinks(const Findings& findings);
  void End(const Findings& findings, const Verdict& verdict);

 private:
  const bool json_;
  const Say say_;
  std::optional<CollectiveKind> told_;  // The kind of the table's latest row.
};

// "Socket"; if the ranks' transports differ, "IB on 6 ranks, Socket on 2".
std::string TransportsOf(const Findings& findings);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_REPORT_H_
