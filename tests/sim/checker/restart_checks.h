// RestartChecks: what the restart budget is charged for (kBudget).
#ifndef ROLLCALL_TESTS_SIM_CHECKER_RESTART_CHECKS_H_
#define ROLLCALL_TESTS_SIM_CHECKER_RESTART_CHECKS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"
#include "tests/sim/checker/finding.h"

namespace rollcall::sim {

class RestartChecks {
 public:
  // How many restarts the job that goes on has been charged for.
  void Set(uint32_t charged) { charged_ = charged; }
  uint32_t charged() const { return charged_; }
  void OnDaemonDied() { charge_.reset(); }

  // `members`: of the world, if its end is charged; the loss of one of them
  // takes the charge back `until` then.
  Finding OnGenerationEnded(const v1::Reform& reform, uint64_t generation,
                            std::set<std::string> members, absl::Time until);
  // Whether its loss would take back the latest charge.
  bool MayTakeBack(const std::string& lost, absl::Time now) const;
  Finding TakeBack();

 private:
  struct Charge {
    std::set<std::string> members;
    absl::Time until;
  };

  uint32_t charged_ = 0;
  // The latest charge for a failure whose blame window is open.
  std::optional<Charge> charge_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_CHECKER_RESTART_CHECKS_H_
