// Starts: whether the ranks of a world are expected to start, that is to link
// or to publish a step, and how long they may take.
//
// Nothing is ever expected of a plain command. So a start is expected only
// where ranks of over half of the world's nodes have started in this run: one
// node alone cannot make the commands of all others count as hung.
//
// How long a start takes is known only once it has succeeded, and it may be
// longer than the timeout. So the timeout begins when over half of the nodes
// have started: in the first world that is when it happens, in later ones what
// it took before.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_HANGS_STARTS_H_
#define ROLLCALL_DAEMON_CORE_HANGS_STARTS_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

class Starts {
 public:
  // No world runs.
  Starts() = default;
  // A world of this many nodes runs. `took`: of each node whose ranks have
  // started in this run, the longest time that one of them took.
  Starts(size_t nodes, std::vector<absl::Duration> took);

  // So have ranks of one more of its nodes. Returns whether a start is expected
  // from now on, and was not before.
  bool Add(absl::Duration took);
  bool expected() const { return expected_; }
  // What a start may take on top of the timeout; at most Limits::wait_max.
  absl::Duration more() const { return more_; }

 private:
  bool Judge();

  size_t nodes_ = 0;
  // Until it is known; at most one a node.
  std::vector<absl::Duration> took_;
  bool expected_ = false;
  absl::Duration more_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANGS_STARTS_H_
