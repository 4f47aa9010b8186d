// Reach: how often the promises were tested in many runs, and whether that was
// often enough.
//
// A promise that no run tests cannot be found broken. InvariantChecker defines
// what counts as a test: an event in which the promise could have been broken,
// for example an evicted agent that tries to come back.
#ifndef ROLLCALL_TESTS_SIM_REACH_H_
#define ROLLCALL_TESTS_SIM_REACH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::sim {

class Reach {
 public:
  // `group`: for runs of several daemons, which have floors of their own.
  explicit Reach(bool group);

  // Adds one run. `tested`: how often it tested each, in the order of
  // kInvariants.
  void Add(const std::vector<uint64_t>& tested);
  // One line for each promise: number, runs that tested it, how often, name.
  std::string Table() const;
  // An array with one JSON object for each promise: promise, name, runs, times.
  std::string Json() const;
  // One line for each promise that was tested less often than this number of
  // runs should test it; "": none. With fewer than kRunsOfAFloor runs, nothing
  // is judged.
  std::string BelowFloor() const;

 private:
  const bool group_;
  uint64_t runs_ = 0;
  std::vector<uint64_t> reached_;  // The runs that tested each promise.
  std::vector<uint64_t> times_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_REACH_H_
