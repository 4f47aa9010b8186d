// Isolation: whether silent nodes are lost, or the daemon itself is cut off.
//
// A single broken stream is its node's fault. If streams of over a tenth of a
// world break within mass_break_window, the cause is probably a switch or a
// load balancer, so the daemon waits for those nodes until their leases end. If
// over half of a world is silent, the daemon takes itself to be isolated (cut
// off from the network). It then gives up no node, until at most half of the
// world is silent or daemon_grace has passed.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_ISOLATION_ISOLATION_H_
#define ROLLCALL_DAEMON_CORE_ISOLATION_ISOLATION_H_

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"

namespace rollcall {

class Isolation {
 public:
  // The stream of a member broke, in a world of `members` nodes. Returns the
  // nodes, including this one, that the daemon now waits for until their leases
  // end; none if few streams broke. Each node counts once per window.
  std::vector<std::string> NoteBreak(const std::string& node, size_t members,
                                     absl::Time now, const Limits& limits);

  // A node is silent if it was not heard for half a lease (live nodes are heard
  // every third of a lease). It is also silent if it has not come back since
  // its stream broke together with many others, or since this daemon started. A
  // single broken stream is not silence, because the node's host has answered.
  static bool IsSilent(const Node& node, absl::Time now, const Limits& limits);

  // The daemon takes itself to be isolated if over half of these members are
  // silent. Returns whether it does. Call it only while on() is false.
  bool MaybeBegin(const std::vector<const Node*>& members, absl::Time now,
                  const Limits& limits);
  // The daemon takes itself to be isolated, because these members are silent.
  void Begin(std::set<std::string> silent, absl::Time until);
  // A node was heard, or it is known what happened to it. Returns whether it
  // was silent.
  bool NoteHeard(const std::string& node) { return silent_.erase(node) > 0; }
  // Whether at most half of a world of this many members is silent.
  bool FewAreSilent(size_t members) const {
    return silent_.size() * 2 <= members;
  }
  // Ends the isolation. Returns the nodes that are still silent.
  std::set<std::string> End();

  bool on() const { return on_; }
  // When daemon_grace has passed; InfiniteFuture: the daemon is not isolated.
  absl::Time until() const { return until_; }
  // The daemon itself was delayed by this time.
  void PutOff(absl::Duration late) { until_ += late; }
  size_t silent() const { return silent_.size(); }

 private:
  // `told`: NoteBreak has returned the break's node.
  struct Break {
    absl::Time at;
    std::string node;
    bool told = false;
  };

  // Breaks within the last window, each node once, oldest first; at most
  // Limits::nodes_max.
  std::deque<Break> breaks_;
  std::set<std::string> broke_;
  bool on_ = false;
  absl::Time until_ = absl::InfiniteFuture();
  std::set<std::string> silent_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ISOLATION_ISOLATION_H_
