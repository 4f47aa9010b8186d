// Starts: whether the ranks of a world are expected to start (to link or to
// publish a step), and how long that may take.
//
// A plain command is never expected to start. So a start is expected only if
// ranks of over half of the world's nodes have started in this run. A single
// node therefore cannot make the commands of all others count as hung.
//
// How long a start takes is known only after it has succeeded, and it may take
// longer than the timeout. So in the first world, the timeout begins when over
// half of the nodes have started. In later worlds, it begins after the time
// that starts took before.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_HANGS_STARTS_H_
#define ROLLCALL_DAEMON_CORE_HANGS_STARTS_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Whether ranks of any member have linked or published a step.
bool AnyHasStarted(const Membership& membership);

class Starts {
 public:
  // No world runs.
  Starts() = default;
  // A world of this many nodes runs. `took`: for each node whose ranks have
  // started in this run, the longest time that one of them took.
  Starts(size_t nodes, std::vector<absl::Duration> took);
  // This world runs; its members are in `membership`.
  Starts(const v1::World& world, const Membership& membership);

  // The ranks of one more node have started. Returns true if a start is
  // expected from now on and was not before.
  bool Add(absl::Duration took);
  bool expected() const { return expected_; }
  // Time that a start may take in addition to the timeout; at most
  // Limits::wait_max.
  absl::Duration more() const { return more_; }

 private:
  bool Judge();

  size_t nodes_ = 0;
  // Start times until more_ is known; at most one per node.
  std::vector<absl::Duration> took_;
  bool expected_ = false;
  absl::Duration more_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANGS_STARTS_H_
