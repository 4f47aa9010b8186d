// Reach: which nodes get no seat yet, because others have not reached them.
//
// A running world must not end for a node that cannot be reached. So a newcomer
// is probed first, and if it was not reached, it is probed again after a delay.
// This value sends nothing and evaluates no probe (see probing.h and
// network_plan.h); the caller passes the result of a round to it.
//
// A node without an entry may have a seat. Pure. Thread rule: one thread at a
// time.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_REACH_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_REACH_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

class Reach {
 public:
  // The node arrived while a world runs, so it must be probed. No effect if it
  // has an entry.
  void Came(const std::string& node, absl::Time now);

  // The node was not reached, or has not answered. It must be probed again at
  // `until`. `partners`: the nodes that it could not connect with.
  void Unreached(const std::string& node, absl::Time until,
                 std::set<std::string> partners = {});

  // The node has gone. For nodes that could not connect with it and have no
  // other such partner, the delay ends now.
  void Gone(const std::string& node, absl::Time now);

  // The node was reached, or gets no seat for another reason.
  void Forget(const std::string& node);

  // Returns the nodes whose delay is over, each once: they must be probed
  // again.
  std::vector<std::string> Expire(absl::Time now);

  // The world has ended. Nodes that were never probed may join the next world,
  // which probes them as it forms. Nodes that were not reached before, and for
  // which there was no time to probe them again, now wait until `until`.
  void WorldEnded(absl::Time until);

  // Until when the node gets no seat. InfinitePast: it may have a seat.
  // InfiniteFuture: it gets none until it is probed.
  absl::Time HeldUntil(const std::string& node) const;

  // Whether the node had to be probed at the time `at` already, and still has
  // to.
  bool WasToProbe(const std::string& node, absl::Time at) const;

  // At most `count_max` nodes that must be probed and for which `here` is true;
  // those that have waited longest come first.
  std::vector<std::string> ToProbe(
      size_t count_max,
      const std::function<bool(const std::string&)>& here) const;

  // When the first delay ends; InfiniteFuture: no delay runs.
  absl::Time NextDue() const;

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    // Since when the node must be probed; InfiniteFuture while it waits for
    // `until`.
    absl::Time since = absl::InfiniteFuture();
    absl::Time until = absl::InfiniteFuture();
    // The node was probed before and was not reached.
    bool again = false;
    std::set<std::string> partners;
  };

  std::map<std::string, Entry> entries_;
  // By partner, the entries that name it.
  std::map<std::string, std::set<std::string>> entries_of_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_REACH_H_
