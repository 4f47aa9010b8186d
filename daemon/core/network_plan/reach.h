// Reach: which nodes get no seat yet because others have not reached them.
//
// No world that runs is ended for a node that cannot be reached: a newcomer is
// probed first, and one that was not reached is probed again after a delay. It
// sends nothing and judges no probe (see probing.h and network_plan.h); the
// caller says what came of a round.
//
// A node without an entry may have a seat. Pure. Thread rule: one thread at a
// time.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_REACH_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_REACH_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

class Reach {
 public:
  // A node came to a world that runs: it is to be probed. Without effect on one
  // that has an entry.
  void Came(const std::string& node, absl::Time now);

  // It was not reached, or has not answered: it is to be probed again at
  // `until`.
  void Unreached(const std::string& node, absl::Time until);

  // It was reached, has gone, or gets no seat for another reason.
  void Forget(const std::string& node) { entries_.erase(node); }

  // The nodes whose delay is over, each once: they are to be probed again.
  std::vector<std::string> Expire(absl::Time now);

  // The world has ended. The next one is formed with nodes that were never
  // probed, and probes them; those that were not reached before wait until
  // `until`, which was not the time to find out.
  void WorldEnded(absl::Time until);

  // Until when the node gets no seat. InfinitePast: it may have one;
  // InfiniteFuture: until it was probed.
  absl::Time HeldUntil(const std::string& node) const;

  // The node was to be probed at that time already, and still is.
  bool WasToProbe(const std::string& node, absl::Time at) const;

  // Nodes to be probed that are `here`, those that have waited longest first,
  // at most `most`.
  std::vector<std::string> ToProbe(
      size_t most, const std::function<bool(const std::string&)>& here) const;

  // When the first delay ends; InfiniteFuture: never.
  absl::Time NextDue() const;

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    // When it came to be probed; unset while it waits for `until`.
    absl::Time since = absl::InfiniteFuture();
    absl::Time until = absl::InfiniteFuture();
    // It was not reached before.
    bool again = false;
  };

  std::map<std::string, Entry> entries_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_REACH_H_
