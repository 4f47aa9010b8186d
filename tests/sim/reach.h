// Reach: how often the promises were put to the test in many runs, and whether
// that was often enough.
//
// A promise that no run ever tests holds in all of them. InvariantChecker says
// what counts as a test: an event in which the promise could have been broken,
// as where an evicted agent tries to come back.
#ifndef ROLLCALL_TESTS_SIM_REACH_H_
#define ROLLCALL_TESTS_SIM_REACH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::sim {

class Reach {
 public:
  // `group`: of runs of several daemons, which have floors of their own.
  explicit Reach(bool group);

  // `tested`: of one run, in the order of kInvariants.
  void Add(const std::vector<uint64_t>& tested);
  // A line a promise: number, runs that tested it, how often, name.
  std::string Table() const;
  // One JSON object a promise, in an array: promise, name, runs, times.
  std::string Json() const;
  // A line for each promise that was tested less often than these runs should
  // have tested it; "": none. Fewer than kRunsOfAFloor runs are not judged.
  std::string BelowFloor() const;

 private:
  const bool group_;
  uint64_t runs_ = 0;
  std::vector<uint64_t> reached_;  // Runs.
  std::vector<uint64_t> times_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_REACH_H_
