// RestartChecks: which events are charged to the restart budget (kBudget).
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
  // The number of restarts charged so far to a job that is restored.
  void Set(uint32_t charged) { charged_ = charged; }
  uint32_t charged() const { return charged_; }
  void OnDaemonDied() { charge_.reset(); }

  // `members`: the members of the world, if its end is charged. If one of them
  // is lost before `until`, the charge is taken back.
  Finding OnGenerationEnded(const v1::Reform& reform, uint64_t generation,
                            std::set<std::string> members, absl::Time until);
  // Whether the loss of this node would take back the latest charge.
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
