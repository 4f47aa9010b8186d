// SlowPaths: the nodes whose round trips stand out while the steps of their
// world are slow. A link that has become slow changes no fact of a node, but
// what waits in its queue delays the probes as well.
//
// While steps are slow, the members probe each other in several rounds, because
// a probe between two collectives finds an empty queue. A node stands out in a
// round if each of its paths, in both directions, takes at least kFactor times
// as long as the best path of the node itself in earlier rounds and as the
// median of the other nodes' best paths, and at least kMore longer than these.
// So a node that is always far away does not stand out, and neither does any if
// all paths have become slow. In a world of two nodes, none can.
//
// A pure value; any thread. Bounded by the number of members.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_SLOW_PATHS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_SLOW_PATHS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class SlowPaths {
 public:
  static constexpr double kFactor = 5;
  static constexpr absl::Duration kMore = absl::Milliseconds(1);
  // A node is named if it stood out in at least this many rounds, and in more
  // than half of them.
  static constexpr int kRoundsMin = 2;

  // Takes what the latest round of probes found between the world's members.
  // No effect if it was taken before. `slow`: the steps are slow; if not, the
  // rounds of an earlier slow period are forgotten.
  void Take(const v1::World& world, const Probing& probing, bool slow);

  // The nodes that stand out in this slow period, by name, each with the text
  // of its latest round: "round trips of 120.4 ms or more, median of the other
  // nodes 0.3 ms".
  std::vector<std::pair<std::string, std::string>> Named() const;

 private:
  struct Standing {
    int rounds = 0;
    absl::Duration best;
    absl::Duration others;
  };

  void TakeSlow(const std::map<std::string, absl::Duration>& best);

  // The latest round that was taken.
  absl::Time last_ = absl::InfinitePast();
  // The best path of each member in rounds in which steps were not slow.
  std::map<std::string, absl::Duration> usual_;
  // Of this slow period.
  int rounds_ = 0;
  std::map<std::string, Standing> standing_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_SLOW_PATHS_H_
