// Finding: the result of checking one invariant at one event.
#ifndef ROLLCALL_TESTS_SIM_CHECKER_FINDING_H_
#define ROLLCALL_TESTS_SIM_CHECKER_FINDING_H_

#include <string>

namespace rollcall::sim {

struct Finding {
  // In how many ways the event could have violated the invariant.
  int tested = 0;
  // How the event violated it; empty: it did not.
  std::string broken;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_CHECKER_FINDING_H_
